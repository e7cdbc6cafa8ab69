// The exception types of Lockstep.
//
// A message names the thing, the value found and what was expected. train/exit_code.h maps each
// type to the exit code of the program; nothing else interprets the type of an error.
#pragma once

#include <stdexcept>
#include <string>

namespace lockstep::base {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A call that breaks its contract: shapes or dtypes that do not fit, an object in the wrong state.
class UsageError : public Error {
 public:
  using Error::Error;
};

// The command line or the configuration asks for something that does not exist or is out of range.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// A data set is missing, damaged or of the wrong kind.
class DataError : public Error {
 public:
  using Error::Error;
};

class CheckpointError : public Error {
 public:
  using Error::Error;
};

// The run could not be set up: a rank did not come, a device, a port or memory is missing.
class StartupError : public Error {
 public:
  using Error::Error;
};

// A rank was lost, is stuck or is out of step. `rank()` is the one at fault, -1 where it is not
// known.
class RankError : public Error {
 public:
  RankError(int rank, const std::string& message) : Error(message), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// Replicas differ, or a value is not finite where the policy is to stop.
class NumericError : public Error {
 public:
  using Error::Error;
};

}  // namespace lockstep::base

namespace lockstep {
using base::CheckpointError;
using base::ConfigError;
using base::DataError;
using base::Error;
using base::NumericError;
using base::RankError;
using base::StartupError;
using base::UsageError;
}  // namespace lockstep

#include "train/exit_code.h"

#include <new>
#include <system_error>

#include "framework/base/error.h"

namespace lockstep::train {
namespace {

template <class T>
bool is(const std::exception& error) {
  return dynamic_cast<const T*>(&error) != nullptr;
}

}  // namespace

ExitCode exit_code_of(const std::exception& error) {
  if (is<ConfigError>(error)) return exit_usage;
  if (is<DataError>(error)) return exit_data;
  if (is<CheckpointError>(error)) return exit_checkpoint;
  if (is<StartupError>(error)) return exit_startup;
  if (is<NumericError>(error)) return exit_numeric;
  if (is<std::bad_alloc>(error) || is<std::system_error>(error)) return exit_startup;  // resources
  return exit_rank_lost;  // RankError, and what only a bug can throw: that rank is gone
}

}  // namespace lockstep::train

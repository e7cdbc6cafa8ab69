// Failures of ranks, and which of them is the first cause.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace lockstep::train {

struct Failure {
  static constexpr int nobody = -1;

  int rank = 0;            // that failed
  int accused = nobody;    // the rank it says is at fault, when that is another one
  int exit_code = 0;       // of the run if this is its first cause
  std::int64_t order = 0;  // in which the failures of a run happened
  std::int64_t step = 0;   // that `rank` was in; 0: not yet in its first
  std::string message = {};
  bool died = false;  // without a word; `message` says how: "was killed by signal 9 (SIGKILL)"
};

// What `rank` throws, as its failure.
Failure failure_of(int rank, const std::exception& error);

// Given at least one: the earliest failure, unless it accuses a rank that failed itself; then that
// rank's, and so on. So "rank 1 did not arrive" is the cause only if rank 1 has nothing worse to
// say, whichever of the two was heard first.
const Failure& first_cause(const std::vector<Failure>& failures);

// How a process ended, from the status that waitpid() gives.
std::string describe_death(int status);

// "in step 57", "before its first step".
std::string describe_step(std::int64_t step);

// "rank 3 was killed by signal 9 (SIGKILL) in step 57", "rank 2 in step 7: <message>".
std::string describe(const Failure& failure);

}  // namespace lockstep::train

// The exit codes of the `train` program, and the one place where an error's type becomes one.
#pragma once

#include <exception>

namespace lockstep::train {

enum ExitCode : int {
  exit_done = 0,
  exit_usage = 2,       // command line or configuration; also a backend that is not built in
  exit_data = 3,        // a data set is missing, damaged or of the wrong kind
  exit_checkpoint = 4,  // a checkpoint or the run's folder cannot be written or read
  exit_startup = 5,     // start-up, rendezvous, resources
  exit_rank_lost = 6,   // a rank was lost, stuck or out of step, or failed in a way nobody foresaw
  exit_numeric = 7,     // replicas differ, or a value is not finite where the policy is to stop
  exit_interrupted = 130,  // stopped by SIGINT
  exit_terminated = 143,   // stopped by SIGTERM
};

ExitCode exit_code_of(const std::exception& error);

}  // namespace lockstep::train

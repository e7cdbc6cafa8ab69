// The training run as one rank lives it.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "train/config/config.h"
#include "train/launch/worker.h"

namespace lockstep::train {

struct RunOptions {
  std::string run_folder;             // exists; rank 0 writes metrics and checkpoints there
  std::optional<std::string> resume;  // a checkpoint file
  bool evaluate_only = false;         // no training: evaluate what was resumed
  // When the user started the program, on the clock that all processes of the host share.
  std::chrono::steady_clock::time_point started;
};

// Trains as `config` says (its seed is set) and returns when all requested work is done, or at the
// step at which the ranks agreed to stop after Worker::stop_requested(). The same call on every
// rank. Throws the error types of framework/base/error.h; before it does, the other ranks have been
// told.
void run_rank(const Config& config, const RunOptions& options, Worker& worker);

}  // namespace lockstep::train

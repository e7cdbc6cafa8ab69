// Checkpoint files, version 1 (HDF5; docs/checkpoint_format.md). Everything is stored by name,
// never as the raw arena, so that a checkpoint does not know how buckets, ranks or the arena were
// laid out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/loss_scaler.h"
#include "train/parallel/reduction_state.h"
#include "train/parallel/replica.h"

namespace lockstep::train {

// Where a run stands: the next batch is step `step_in_epoch` of epoch `epoch`. Together with the
// seed this is all the state that the data order and the random draws have.
struct Progress {
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
  std::int64_t steps_done = 0;
  int world_size = 1;  // of the run that saved it; any other may go on from it
  LossScale loss_scale = {};
  // When loaded, data_parallel.hook of that run: state is restored into the same hook only.
  std::string hook = {};
};

// The same where epochs have so many steps: behind the last of them the next batch is the first of
// the next epoch. Throws ConfigError where an epoch had more of them.
Progress at_next_batch(Progress progress, std::int64_t steps_per_epoch);

// Digests of 128 bits, in hexadecimal; equal states have equal digests, on any number of workers.
std::string weights_digest(const nn::ParameterArena& arena);
std::string optimizer_digest(const nn::ParameterArena& arena, const OptimizerState& state);

// Writes `path` so that it is complete or not there: to a temporary file beside it, flushed to the
// disk, then renamed, then the folder flushed. Throws CheckpointError with path and reason; the
// temporary file is gone then. `optimizer` is what Replica::gather_optimizer_state() gave this
// rank, `hook_state` what gather_reduction_state() did.
void save_checkpoint(const std::string& path, Replica& replica, const OptimizerState& optimizer,
                     const Progress& progress, const std::string& config,
                     const std::vector<SavedState>& hook_state = {});

// Loads everything into `replica`, whose model and optimizer must be those that were saved, and
// checks the digests. Throws CheckpointError naming file, entry, what was found and expected.
Progress load_checkpoint(const std::string& path, Replica& replica);

struct CheckpointSummary {
  Progress progress;
  std::int64_t parameters = 0;  // elements
  std::string optimizer;
  std::string weights_digest;
  std::string optimizer_digest;
  std::string config;  // effective configuration, YAML
};
CheckpointSummary summarize_checkpoint(const std::string& path);

// Prints a summary for `train inspect`.
void inspect_checkpoint(const std::string& path);

}  // namespace lockstep::train

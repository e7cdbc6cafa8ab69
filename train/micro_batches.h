// MicroBatches: the forward and backward passes of a batch, one for each micro-batch.
#pragma once

#include <cstdint>

#include "data/loader.h"
#include "data/sampler.h"
#include "framework/ops/cross_entropy.h"
#include "train/config/config.h"
#include "train/loss_counter.h"
#include "train/parallel/replica.h"

namespace lockstep::train {

class MicroBatches {
 public:
  // All outlive this. Losses are counted by `counter`.
  MicroBatches(const Config& config, Context& context, Replica& replica, LossCounter& counter)
      : context_(context),
        replica_(replica),
        counter_(counter),
        seed_(*config.seed),
        parts_(config.train.accumulate),
        loss_options_{.label_smoothing = config.train.label_smoothing} {}

  // All of this rank's rows in the batch of update `step`, in which replica.begin_update() comes
  // before. Losses are scaled by the size of the global batch, so that the sum over ranks and
  // micro-batches is its mean. Waits for no GPU.
  void run(const data::Batch& batch, std::int64_t step);
  std::int64_t parts() const { return parts_; }

 private:
  Variable forward(const data::Batch& batch, data::RowRange rows);

  Context& context_;
  Replica& replica_;
  LossCounter& counter_;
  std::uint64_t seed_;
  std::int64_t parts_;
  ops::CrossEntropyOptions loss_options_;
};

}  // namespace lockstep::train

// LossCounter: adds up on the device what the batches of a step, or of an evaluation, came to, so
// that the host reads it once.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"
#include "framework/ops/cross_entropy.h"
#include "train/parallel/step_summary.h"

namespace lockstep::train {

// Used by the context's thread.
class LossCounter {
 public:
  explicit LossCounter(Context& context);

  // The loss of a batch, scaled as ops::cross_entropy() says; counts it, its targets and those of
  // them that `logits` meet.
  Variable loss(const Variable& logits, const Tensor& targets, double scale = 1,
                const ops::CrossEntropyOptions& options = {});
  // Adds what was counted since the last call to `summary`. Waits for the compute stream; throws
  // what kernels found wrong with targets and indices until then.
  void take(StepSummary& summary);
  // The same into the first three of `values`, float64 on the device, for which nobody waits.
  void take_into(const Tensor& values);

 private:
  Tensor counts_;  // float64: sum of the losses, targets, correct ones
};

}  // namespace lockstep::train

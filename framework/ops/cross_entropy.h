#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"

namespace lockstep::ops {

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
};

// The loss stays a sum and a count until the end, so that shards of unequal size add up to the mean
// over the global batch.
struct CrossEntropy {
  Variable loss_sum;       // one element: the sum over the rows that count, times `scale`
  double sum = 0;          // the same sum, not scaled
  std::int64_t count = 0;  // rows that count
};

// Softmax and cross-entropy, fused. logits [rows, classes], targets int64 [rows] in [0, classes) or
// ignore_index; a target outside throws DataError naming row and value. `scale` multiplies the loss
// and its gradient (1 / targets in the global batch).
CrossEntropy cross_entropy(const Variable& logits, const Tensor& targets, double scale = 1.0,
                           const CrossEntropyOptions& options = {});

}  // namespace lockstep::ops

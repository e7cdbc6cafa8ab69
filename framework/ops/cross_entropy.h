#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"
#include "framework/kernels/operations.h"

namespace lockstep::ops {

using kernels::CrossEntropyOptions;

// The loss stays a sum and a count until the end, so that shards of unequal size add up to the mean
// over the global batch.
struct CrossEntropy {
  Variable loss_sum;  // one element: the sum over the rows that count, times `scale`
  Tensor total;       // float64 [2]: the same sum, not scaled, and how many rows count

  // Both wait for them where they are on a GPU, once each.
  double sum() const { return total.slice(0, 0, 1).item<double>(); }
  double count() const { return total.slice(0, 1, 2).item<double>(); }
};

// Softmax and cross-entropy, fused. logits [rows, classes], targets int64 [rows] in [0, classes) or
// ignore_index; a target outside is a DataError naming row and value, which on a GPU is for who
// reads the result to ask for (kernels::Kernels::throw_noted_error). `scale` multiplies the loss
// and its gradient (1 / targets in the global batch). Sum and count are added to `total` where it
// is given.
CrossEntropy cross_entropy(const Variable& logits, const Tensor& targets, double scale = 1.0,
                           const CrossEntropyOptions& options = {}, const Tensor& total = {});

}  // namespace lockstep::ops

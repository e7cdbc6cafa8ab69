// What the kernels around a loss check of their operands, on every kind of device.
#pragma once

#include "framework/kernels/dispatch.h"
#include "framework/kernels/kernels.h"

namespace lockstep::kernels {

// A row of logits for each target.
inline void require_targets(std::string_view kernel, const Tensor& logits, const Tensor& targets) {
  require_rank(kernel, "logits", logits, 2);
  require_shape(kernel, "targets", targets, {logits.shape()[0]});
}

inline void require_cross_entropy(const Tensor& logits, const Tensor& targets,
                                  const CrossEntropyResult& result) {
  require_targets("cross_entropy", logits, targets);
  require_operand("cross_entropy", "total", result.total, {2}, DType::float64);
  if (result.loss.defined())
    require_operand("cross_entropy", "loss", result.loss.reshape({1}), {1}, logits.dtype());
  if (!result.grad.defined()) return;
  require_shape("cross_entropy", "grad", result.grad, logits.shape());
  require_contiguous("cross_entropy", "grad", result.grad);
}

}  // namespace lockstep::kernels

// What matrix products ask of their operands, on every kind of device.
#pragma once

#include "framework/kernels/axes.h"

namespace lockstep::kernels {

// c = a * b over the last two axes with leading axes broadcast; throws UsageError naming the shapes
// where they do not fit. Returns the batch: the leading axes, merged; operands are c, a, b.
Axes matmul_batch(const Tensor& a, const Tensor& b, const Tensor& c);

// y[m, n] = x[m, k] * w[n, k]^T + bias[n]; `bias` and `pre` may be undefined. Throws UsageError.
struct LinearShape {
  std::int64_t m = 0, n = 0, k = 0;
};
LinearShape linear_shape(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& pre,
                         const Tensor& y);

// Throws UsageError unless all are [m, n], grad_pre contiguous, and grad_bias undefined or [n].
void require_bias_activation_backward(const Tensor& saved, const Tensor& grad_y,
                                      const Tensor& grad_pre, const Tensor& grad_bias);

}  // namespace lockstep::kernels

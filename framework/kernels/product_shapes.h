// What matrix products ask of their operands, on every kind of device.
#pragma once

#include <string_view>

#include "framework/kernels/axes.h"
#include "framework/kernels/kernels.h"

namespace lockstep::kernels {

// c = a * b over the last two axes with leading axes broadcast; throws UsageError naming the shapes
// where they do not fit. Returns the batch: the leading axes, merged; operands are c, a, b.
Axes matmul_batch(const Tensor& a, const Tensor& b, const Tensor& c);

// What a GPU's products take: factors of the result's type, float32 or float64, or of bfloat16
// beside a float32 result. Throws UsageError.
void require_factors(std::string_view kernel, const Tensor& a, const Tensor& b,
                     const Tensor& result);

// y[m, n] = x[m, k] * w[n, k]^T + bias[n]; `bias` may be undefined. Throws UsageError.
struct LinearShape {
  std::int64_t m = 0, n = 0, k = 0;
};
LinearShape linear_shape(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);

// Of a layer that writes y, with memory for the value before the activation where its gradient
// needs that.
ActivationRecord make_record(Activation activation, const Tensor& y);

// What the gradient of the record's activation is computed from beside `grad_y`, which it gives
// where that is all. Throws UsageError unless all are [m, n], grad_pre contiguous, and grad_bias
// undefined or [n].
Tensor require_bias_activation_backward(const ActivationRecord& record, const Tensor& grad_y,
                                        const Tensor& grad_pre, const Tensor& grad_bias);

}  // namespace lockstep::kernels

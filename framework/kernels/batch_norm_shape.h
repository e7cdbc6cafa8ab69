// What batch normalisation asks of its operands, on every kind of device.
#pragma once

#include <initializer_list>
#include <string_view>

#include "framework/kernels/dispatch.h"
#include "framework/kernels/operations.h"

namespace lockstep::kernels {

struct BatchNormOperand {
  std::string_view name;
  const Tensor& tensor;
};

// Of x; throws UsageError unless x and the matrices are contiguous [rows, features] and the vectors
// contiguous [features]. Vectors that are not defined are passed over.
inline BatchNormShape batch_norm_shape(std::string_view kernel, const Tensor& x,
                                       std::initializer_list<BatchNormOperand> matrices,
                                       std::initializer_list<BatchNormOperand> vectors) {
  require_rank(kernel, "x", x, 2);
  const BatchNormShape shape{x.shape()[0], x.shape()[1]};
  require_shape(kernel, "x", x, {shape.rows, shape.features});
  require_contiguous(kernel, "x", x);
  for (const auto& [name, tensor] : matrices) {
    require_shape(kernel, name, tensor, x.shape());
    require_contiguous(kernel, name, tensor);
  }
  for (const auto& [name, tensor] : vectors) {
    if (!tensor.defined()) continue;
    require_shape(kernel, name, tensor, {shape.features});
    require_contiguous(kernel, name, tensor);
  }
  return shape;
}

// Of batch_norm(), which needs two rows.
inline BatchNormShape batch_norm_training_shape(const Tensor& x, const Tensor& weight,
                                                const Tensor& bias, const Tensor& running_mean,
                                                const Tensor& running_variance, const Tensor& mean,
                                                const Tensor& inverse_deviation, const Tensor& y) {
  const BatchNormShape shape = batch_norm_shape("batch_norm", x, {{"y", y}},
                                                {{"weight", weight},
                                                 {"bias", bias},
                                                 {"running_mean", running_mean},
                                                 {"running_variance", running_variance},
                                                 {"mean", mean},
                                                 {"inverse_deviation", inverse_deviation}});
  if (shape.rows < 2)
    throw UsageError(fmt::format("batch_norm: x has {} rows, expected at least 2", shape.rows));
  return shape;
}

inline BatchNormShape batch_norm_inference_shape(const Tensor& x, const Tensor& weight,
                                                 const Tensor& bias, const Tensor& mean,
                                                 const Tensor& variance,
                                                 const Tensor& inverse_deviation, const Tensor& y) {
  return batch_norm_shape("batch_norm_inference", x, {{"y", y}},
                          {{"weight", weight},
                           {"bias", bias},
                           {"mean", mean},
                           {"variance", variance},
                           {"inverse_deviation", inverse_deviation}});
}

inline BatchNormShape batch_norm_parameter_shape(const Tensor& x, const Tensor& mean,
                                                 const Tensor& inverse_deviation,
                                                 const Tensor& grad_y, const Tensor& grad_weight,
                                                 const Tensor& grad_bias) {
  return batch_norm_shape("batch_norm_parameter_gradients", x, {{"grad_y", grad_y}},
                          {{"mean", mean},
                           {"inverse_deviation", inverse_deviation},
                           {"grad_weight", grad_weight},
                           {"grad_bias", grad_bias}});
}

inline BatchNormShape batch_norm_input_shape(const Tensor& x, const Tensor& weight,
                                             const Tensor& mean, const Tensor& inverse_deviation,
                                             const Tensor& grad_y, const Tensor& grad_weight,
                                             const Tensor& grad_bias, const Tensor& grad_x) {
  return batch_norm_shape("batch_norm_input_gradient", x, {{"grad_y", grad_y}, {"grad_x", grad_x}},
                          {{"weight", weight},
                           {"mean", mean},
                           {"inverse_deviation", inverse_deviation},
                           {"grad_weight", grad_weight},
                           {"grad_bias", grad_bias}});
}

}  // namespace lockstep::kernels

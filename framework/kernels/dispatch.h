// From the dtype, known when running, to the C++ type, and what every kernel checks of its
// operands.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "framework/tensor/tensor.h"

namespace lockstep::kernels {

// Calls f(TypeTag<float>) or f(TypeTag<double>).
template <class F>
decltype(auto) visit_float(std::string_view kernel, DType dtype, F&& f) {
  if (dtype == DType::float32) return std::forward<F>(f)(base::TypeTag<float>{});
  if (dtype == DType::float64) return std::forward<F>(f)(base::TypeTag<double>{});
  throw UsageError(
      fmt::format("{}: dtype is {}, expected float32 or float64", kernel, base::name_of(dtype)));
}

inline void require_shape(std::string_view kernel, std::string_view operand, const Tensor& tensor,
                          const Shape& expected) {
  if (tensor.shape() == expected) return;
  throw UsageError(fmt::format("{}: {} has shape {}, expected {}", kernel, operand,
                               base::to_string(tensor.shape()), base::to_string(expected)));
}

inline void require_rank(std::string_view kernel, std::string_view operand, const Tensor& tensor,
                         int at_least) {
  if (tensor.rank() >= at_least) return;
  throw UsageError(fmt::format("{}: {} has shape {}, expected at least {} axes", kernel, operand,
                               base::to_string(tensor.shape()), at_least));
}

inline void require_contiguous(std::string_view kernel, std::string_view operand,
                               const Tensor& tensor) {
  if (tensor.is_contiguous()) return;
  throw UsageError(fmt::format("{}: {} of shape {} is a strided view, expected contiguous memory",
                               kernel, operand, base::to_string(tensor.shape())));
}

// A flat range beside the parameter's.
inline void require_range(std::string_view kernel, std::string_view operand, const Tensor& tensor,
                          const Tensor& parameter) {
  require_contiguous(kernel, operand, tensor);
  require_shape(kernel, operand, tensor, parameter.shape());
}

// A row of logits for each target.
inline void require_targets(std::string_view kernel, const Tensor& logits, const Tensor& targets) {
  require_rank(kernel, "logits", logits, 2);
  require_shape(kernel, "targets", targets, {logits.shape()[0]});
}

}  // namespace lockstep::kernels

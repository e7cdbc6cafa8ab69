// From the dtype, known when running, to the C++ type, and what every kernel checks of its
// operands.
#pragma once

#include <fmt/format.h>

#include <cstdint>
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

inline void require_dtype(std::string_view kernel, std::string_view operand, const Tensor& tensor,
                          DType expected) {
  if (tensor.dtype() == expected) return;
  throw UsageError(fmt::format("{}: {} has dtype {}, expected {}", kernel, operand,
                               base::name_of(tensor.dtype()), base::name_of(expected)));
}

// A contiguous operand of one shape and dtype.
inline void require_operand(std::string_view kernel, std::string_view operand, const Tensor& tensor,
                            const Shape& shape, DType dtype) {
  require_shape(kernel, operand, tensor, shape);
  require_dtype(kernel, operand, tensor, dtype);
  require_contiguous(kernel, operand, tensor);
}

}  // namespace lockstep::kernels

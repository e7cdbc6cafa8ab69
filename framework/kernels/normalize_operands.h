// What normalize_channels() takes, on every kind of device.
#pragma once

#include <cstdint>

#include "framework/kernels/dispatch.h"

namespace lockstep::kernels {

// What data sets store: calls f(TypeTag<std::uint8_t>) or f(TypeTag<float>).
template <class F>
decltype(auto) visit_stored(DType dtype, F&& f) {
  if (dtype == DType::uint8) return std::forward<F>(f)(base::TypeTag<std::uint8_t>{});
  if (dtype == DType::float32) return std::forward<F>(f)(base::TypeTag<float>{});
  throw UsageError(fmt::format("normalize_channels: dtype is {}, expected uint8 or float32",
                               base::name_of(dtype)));
}

inline void require_normalize_channels(const Tensor& x, const Tensor& factor, const Tensor& offset,
                                       const Tensor& out) {
  constexpr std::string_view kernel = "normalize_channels";
  require_rank(kernel, "out", out, 3);
  const Shape shape{out.shape()[0], out.shape()[1], out.shape()[2]};
  require_operand(kernel, "out", out, shape, out.dtype());
  require_operand(kernel, "x", x, shape, x.dtype());
  require_operand(kernel, "factor", factor, {shape[1]}, out.dtype());
  require_operand(kernel, "offset", offset, {shape[1]}, out.dtype());
}

}  // namespace lockstep::kernels

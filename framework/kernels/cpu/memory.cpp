#include <type_traits>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/loop.h"

namespace lockstep::kernels {
namespace {

template <class T>
inline constexpr bool is_16_bit_float = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

// Floating point to integer drops the fraction; the value must fit.
template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_16_bit_float<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (is_16_bit_float<To>) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace

void CpuKernels::fill(double value, const Tensor& out) const {
  base::visit_dtype(out.dtype(), [&]<class T>(base::TypeTag<T>) {
    transform<T, T>(out, [v = convert<T>(value)]() { return v; });
  });
}

void CpuKernels::copy(const Tensor& x, const Tensor& out) const {
  base::visit_dtype(out.dtype(), [&]<class To>(base::TypeTag<To>) {
    base::visit_dtype(x.dtype(), [&]<class From>(base::TypeTag<From>) {
      transform<To, From>(
          out, [](From value) { return convert<To>(value); }, x);
    });
  });
}

}  // namespace lockstep::kernels

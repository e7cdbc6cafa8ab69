// From one element type to another, the same on every kind of device.
#pragma once

#include <type_traits>

#include "framework/base/dtype.h"

namespace lockstep::kernels {

template <class T>
inline constexpr bool is_16_bit_float = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

// Floating point to integer drops the fraction; the value must fit.
template <class To, class From>
constexpr To convert(From value) {
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

}  // namespace lockstep::kernels

// Element types, and the 16-bit floating point types that C++20 lacks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace lockstep::base {

enum class DType : std::uint8_t { float32, float64, bfloat16, float16, int32, int64, uint8 };

std::size_t size_of(DType dtype);
std::string_view name_of(DType dtype);         // "float32", ...
DType dtype_from_name(std::string_view name);  // throws UsageError listing the known names
bool is_floating(DType dtype);

// Storage types: arithmetic happens in float. Conversion from float rounds to nearest, ties to even;
// NaN stays NaN (quiet), overflow becomes infinity.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value);
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  bool operator==(const bfloat16&) const = default;
};

struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  explicit operator float() const;
  bool operator==(const float16&) const = default;
};

template <class T>
constexpr DType dtype_of();
template <> constexpr DType dtype_of<float>() { return DType::float32; }
template <> constexpr DType dtype_of<double>() { return DType::float64; }
template <> constexpr DType dtype_of<bfloat16>() { return DType::bfloat16; }
template <> constexpr DType dtype_of<float16>() { return DType::float16; }
template <> constexpr DType dtype_of<std::int32_t>() { return DType::int32; }
template <> constexpr DType dtype_of<std::int64_t>() { return DType::int64; }
template <> constexpr DType dtype_of<std::uint8_t>() { return DType::uint8; }

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the C++ type of `dtype`.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return std::forward<F>(f)(TypeTag<float>{});
    case DType::float64: return std::forward<F>(f)(TypeTag<double>{});
    case DType::bfloat16: return std::forward<F>(f)(TypeTag<bfloat16>{});
    case DType::float16: return std::forward<F>(f)(TypeTag<float16>{});
    case DType::int32: return std::forward<F>(f)(TypeTag<std::int32_t>{});
    case DType::int64: return std::forward<F>(f)(TypeTag<std::int64_t>{});
    case DType::uint8: return std::forward<F>(f)(TypeTag<std::uint8_t>{});
  }
  __builtin_unreachable();
}

}  // namespace lockstep::base

namespace lockstep {
using base::bfloat16;
using base::DType;
using base::float16;
}  // namespace lockstep

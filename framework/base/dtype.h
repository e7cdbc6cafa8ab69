// Element types, and the 16-bit floating point types that C++20 lacks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lockstep::base {

enum class DType : std::uint8_t { float32, float64, bfloat16, float16, int32, int64, uint8 };

std::size_t size_of(DType dtype);
std::string_view name_of(DType dtype);         // "float32", ...
DType dtype_from_name(std::string_view name);  // throws UsageError listing the known names
bool is_floating(DType dtype);

// Storage types: arithmetic happens in float. Conversion from float rounds to nearest, ties to
// even; NaN stays NaN (made quiet, sign and upper payload bits kept), overflow becomes infinity.
// Conversion to float is exact. Written without branches on purpose, so that loops over them become
// vector code, and with integer operations where hardware conversions might differ: all machines
// give the same bits.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  constexpr explicit bfloat16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = u + 0x7FFFu + ((u >> 16) & 1u);
    const bool is_nan = (u & 0x7FFFFFFFu) > 0x7F800000u;
    bits = static_cast<std::uint16_t>((is_nan ? u | 0x00400000u : rounded) >> 16);
  }
  constexpr explicit operator float() const {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
  bool operator==(const bfloat16&) const = default;  // of the bits
};

struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  constexpr explicit float16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (u >> 16) & 0x8000u;
    const std::uint32_t magnitude = u & 0x7FFFFFFFu;
    // Normal: rebias the exponent from 127 to 15 and round at bit 13; a carry goes into the
    // exponent.
    const std::uint32_t normal =
        (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    // Subnormal: next to 0.5 floats are 2^-24 apart, just like subnormal halves, so the addition
    // rounds.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
    const std::uint32_t nan = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
    std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;  // below 2^-14
    result = magnitude >= 0x477FF000u ? 0x7C00u : result;                 // from 65520: infinity
    result = magnitude > 0x7F800000u ? nan : result;
    bits = static_cast<std::uint16_t>(sign | result);
  }
  constexpr explicit operator float() const {
    const std::uint32_t magnitude = bits & 0x7FFFu;
    const std::uint32_t shifted = magnitude << 13;
    // The fraction as so many steps of 2^-24 above 0.5, the other way round.
    const auto subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(0x3F000000u + magnitude) - 0.5f);
    const std::uint32_t quiet = magnitude > 0x7C00u ? 0x00400000u : 0u;
    std::uint32_t result = magnitude < 0x0400u ? subnormal : shifted + (112u << 23);
    result = magnitude >= 0x7C00u ? shifted | 0x7F800000u | quiet : result;
    return std::bit_cast<float>(((std::uint32_t{bits} & 0x8000u) << 16) | result);
  }
  bool operator==(const float16&) const = default;  // of the bits
};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::float32;
  if constexpr (std::is_same_v<T, double>) return DType::float64;
  if constexpr (std::is_same_v<T, bfloat16>) return DType::bfloat16;
  if constexpr (std::is_same_v<T, float16>) return DType::float16;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::int32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::int64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::uint8;
}  // does not compile for any other type

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the C++ type of `dtype`.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return std::forward<F>(f)(TypeTag<float>{});
    case DType::float64:
      return std::forward<F>(f)(TypeTag<double>{});
    case DType::bfloat16:
      return std::forward<F>(f)(TypeTag<bfloat16>{});
    case DType::float16:
      return std::forward<F>(f)(TypeTag<float16>{});
    case DType::int32:
      return std::forward<F>(f)(TypeTag<std::int32_t>{});
    case DType::int64:
      return std::forward<F>(f)(TypeTag<std::int64_t>{});
    case DType::uint8:
      return std::forward<F>(f)(TypeTag<std::uint8_t>{});
  }
  __builtin_unreachable();
}

}  // namespace lockstep::base

namespace lockstep {
using base::bfloat16;
using base::DType;
using base::float16;
}  // namespace lockstep

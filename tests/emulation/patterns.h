// What memory holds that nothing was written to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {

// 16-bit patterns that fill memory nothing was written to. Repeated, each is a NaN as float,
// double, bfloat16 and float16, and keeps its payload in arithmetic, so that a result tells where
// it is from.
inline constexpr std::uint16_t uninitialised_shared_pattern = 0x7FF5;
inline constexpr std::uint16_t uninitialised_global_pattern = 0x7FF6;
inline constexpr std::uint16_t freed_global_pattern = 0x7FF7;

inline void fill_with(std::uint16_t pattern, std::byte* memory, std::size_t bytes) {
  std::size_t i = 0;
  for (; i + 2 <= bytes; i += 2) std::memcpy(memory + i, &pattern, 2);
  if (i < bytes) memory[i] = std::byte{0xFF};
}

// Whether an aligned float in the memory is the NaN of `pattern`, with either sign.
inline bool holds_float_of(std::uint16_t pattern, const std::byte* memory, std::size_t bytes) {
  const std::uint32_t nan = std::uint32_t{pattern} << 16 | pattern;
  for (std::size_t i = 0; i + 4 <= bytes; i += 4) {
    std::uint32_t word;
    std::memcpy(&word, memory + i, 4);
    if ((word & 0x7FFFFFFFu) == nan) return true;
  }
  return false;
}

// Red zones hold one byte throughout while they are intact, and are poisoned.
inline constexpr auto red_zone_byte = std::byte{0xC5};

inline void fill_red_zone(std::byte* memory, std::size_t bytes) {
  unpoison(memory, bytes);
  std::fill_n(memory, bytes, red_zone_byte);
  poison(memory, bytes);
}

inline bool is_red_zone(const std::byte* memory, std::size_t bytes) {
  return std::all_of(memory, memory + bytes, [](std::byte b) { return b == red_zone_byte; });
}

}  // namespace lockstep::emulation

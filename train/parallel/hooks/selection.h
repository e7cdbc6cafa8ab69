// Which elements are the k largest, without sorting them.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace lockstep::train {

// |value| as a float, as an integer of the same order; NaN is above everything.
template <class T>
constexpr std::uint32_t magnitude_bits(T value) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0x7FFFFFFFu;
}

// The k largest are those above `bits` and the first `ties` of those equal to it.
struct SelectionThreshold {
  std::uint32_t bits = 0;
  std::int64_t ties = 0;
};

// A radix search: finds the digits of the k-th largest magnitude from the first to the last, by
// counting how many elements share the digits found so far and have each digit next. 1 <= k <=
// size.
template <class T>
SelectionThreshold selection_threshold(std::span<const T> values, std::int64_t k) {
  SelectionThreshold threshold{0, k};
  for (const auto& [shift, width] :
       {std::pair{20u, 11u}, std::pair{10u, 10u}, std::pair{0u, 10u}}) {
    std::array<std::int64_t, 2048> counts{};
    const std::uint32_t digits = (1u << width) - 1;
    for (const T value : values) {
      const std::uint32_t bits = magnitude_bits(value);
      if (bits >> (shift + width) == threshold.bits >> (shift + width))
        ++counts[bits >> shift & digits];
    }
    std::uint32_t digit = digits;
    while (counts[digit] < threshold.ties) threshold.ties -= counts[digit--];
    threshold.bits |= digit << shift;
  }
  return threshold;
}

}  // namespace lockstep::train

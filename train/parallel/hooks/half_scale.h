// The power of two by which float16 gradients travel larger or smaller than they are; the same
// arithmetic on the host and on GPUs.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep::train {

// The exponent of the scale with which `ranks` numbers up to `largest` add up to at most 2^15. It
// and its negative are those of normal floats.
constexpr int scale_exponent(float largest, int ranks) {
  const auto bits = std::bit_cast<std::uint32_t>(largest);
  if (bits == 0 || bits >= 0x7F800000u) return 0;  // what is not finite stays so
  const auto sum = std::bit_cast<std::uint64_t>(static_cast<double>(largest) * ranks);
  const int above = static_cast<int>(sum >> 52) - 1022;  // sum < 2^above; a normal double
  return above < -111 ? 126 : 15 - above;
}

constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

}  // namespace lockstep::train

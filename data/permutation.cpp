#include "data/permutation.h"

#include <algorithm>
#include <bit>

#include "framework/base/random.h"

namespace lockstep::data {

namespace {

// Halves of one or two bits would mix too slowly for a fair choice among all orders.
constexpr int least_bits = 6;

// Mixes all bits of `value` into each other (the finalizer of SplitMix64; Steele, Lea, Flood, "Fast
// Splittable Pseudorandom Number Generators", OOPSLA 2014).
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

std::uint64_t low_bits(std::uint64_t value, int bits) {
  return value & ((std::uint64_t{1} << bits) - 1);
}

}  // namespace

Permutation::Permutation(std::uint64_t count, std::uint64_t seed, std::string_view purpose,
                         std::uint64_t step)
    : count_(count) {
  const int bits =
      std::max(least_bits, static_cast<int>(std::bit_width(count > 0 ? count - 1 : 0)));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  const base::RandomStream stream(seed, purpose, step);
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto words = stream.block(0, round);
    keys_[round] = (std::uint64_t{words[1]} << 32) | words[0];
  }
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  std::uint64_t left = value >> right_bits_;
  std::uint64_t right = low_bits(value, right_bits_);
  for (std::size_t round = 0; round < rounds; round += 2) {
    left ^= low_bits(mix(right ^ keys_[round]), left_bits_);
    right ^= low_bits(mix(left ^ keys_[round + 1]), right_bits_);
  }
  return (left << right_bits_) | right;
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  // The walk stays on the cycle of `position`, which returns below count_ at the latest there. The
  // domain is less than twice as large, apart from counts below 32, so it takes under two steps
  // on average.
  std::uint64_t value = encrypt(position);
  while (value >= count_) value = encrypt(value);
  return value;
}

}  // namespace lockstep::data

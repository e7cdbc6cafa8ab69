#include "framework/base/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "framework/base/error.h"
#include "framework/base/hash.h"

namespace lockstep::base {
namespace {

// The upper half of the counter keeps the kinds of draws of one stream apart.
constexpr std::uint64_t normal_blocks = 1;
constexpr std::uint64_t below_blocks = 2;  // and one more for each rejection

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view purpose, std::uint64_t step)
    : purpose_(hash64(purpose, seed)), step_(step), key_(key_of(purpose_, step)) {}

double RandomStream::normal(std::uint64_t index) const {
  const PhiloxCounter words = block(normal_blocks, index / 2);
  const std::size_t first = index % 2 * 2;
  const double u = (words[first] + 1.0) * 0x1.0p-32;  // in (0, 1]: the logarithm is finite
  const double angle = words[first + 1] * (2.0 * std::numbers::pi * 0x1.0p-32);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(angle);
}

// Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019).
std::uint64_t RandomStream::below(std::uint64_t bound, std::uint64_t index) const {
  if (bound == 0) throw UsageError("RandomStream::below: the bound is 0, expected at least 1");
  for (std::uint64_t attempt = 0;; ++attempt) {
    const PhiloxCounter words = block(below_blocks + attempt, index);
    const std::uint64_t draw = words[0] | std::uint64_t{words[1]} << 32;
    const auto product = static_cast<unsigned __int128>(draw) * bound;
    const auto fraction = static_cast<std::uint64_t>(product);
    // Accepting fractions from 2^64 mod bound on leaves every result the same number of draws.
    if (fraction >= bound || fraction >= -bound % bound) {
      return static_cast<std::uint64_t>(product >> 64);
    }
  }
}

}  // namespace lockstep::base

// What ranks put into collectives, and what must come out.
//
// A rank's contribution is a pure function of (salt, rank, element), so that every rank can compute
// what every other gave. Sums are compared with one in long double: n terms added one after the
// other in the accumulator type (unit roundoff u) and rounded once to the element type (unit
// roundoff v) are off by at most (n - 1) u sum|x| + v |sum|, to first order; the bounds below leave
// that twice. Where partial sums are rounded to the element type on their way, at `hops` places,
// each adds v sum|x|. Integers wrap around and must be equal, as must max and min.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "comm/communicator.h"

namespace lockstep::tests {

inline std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Floats in [-1, 1), integers over their whole range.
template <class T>
T contribution(std::uint64_t salt, int rank, std::int64_t element) {
  const std::uint64_t bits =
      mix(salt * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(rank) * 0xD1342543DE82EF95u +
          static_cast<std::uint64_t>(element));
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    const double uniform = static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1.0p-63;
    if constexpr (std::is_same_v<T, double>)
      return uniform;
    else
      return T(static_cast<float>(uniform));
  }
}

template <class T>
long double to_real(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<long double>(value);
  else
    return static_cast<long double>(static_cast<float>(value));
}

struct Rounding {
  long double accumulator, element;
  long double smallest;  // below it, spacing does not shrink
};

template <class T>
Rounding rounding_of() {
  if constexpr (std::is_same_v<T, double>) return {0x1.0p-53L, 0x1.0p-53L, 0};
  if constexpr (std::is_same_v<T, float>) return {0x1.0p-24L, 0x1.0p-24L, 0};
  if constexpr (std::is_same_v<T, bfloat16>) return {0x1.0p-24L, 0x1.0p-9L, 0};
  if constexpr (std::is_same_v<T, float16>) return {0x1.0p-24L, 0x1.0p-11L, 0x1.0p-24L};
  return {0, 0, 0};
}

// Throws unless `found` is the reduction of what `ranks` ranks gave for this element.
template <class T>
void check_reduced(T found, comm::ReduceOp op, std::uint64_t salt, int ranks, std::int64_t element,
                   int hops = 0) {
  using comm::ReduceOp;
  const auto fail = [&](long double expected, long double bound) {
    throw std::runtime_error(
        fmt::format("{} of {} ranks at element {}: found {}, expected {} within {}",
                    comm::name_of(op), ranks, element, static_cast<double>(to_real(found)),
                    static_cast<double>(expected), static_cast<double>(bound)));
  };
  if (op == ReduceOp::max || op == ReduceOp::min) {
    long double expected = to_real(contribution<T>(salt, 0, element));
    for (int r = 1; r < ranks; ++r) {
      const long double x = to_real(contribution<T>(salt, r, element));
      expected = op == ReduceOp::max ? std::max(expected, x) : std::min(expected, x);
    }
    if (to_real(found) != expected) fail(expected, 0);
  } else if constexpr (std::is_integral_v<T>) {
    std::uint64_t sum = 0;
    for (int r = 0; r < ranks; ++r)
      sum += static_cast<std::uint64_t>(contribution<T>(salt, r, element));
    if (found != static_cast<T>(sum)) fail(static_cast<long double>(static_cast<T>(sum)), 0);
  } else {
    long double sum = 0, magnitude = 0;
    for (int r = 0; r < ranks; ++r) {
      const long double x = to_real(contribution<T>(salt, r, element));
      sum += x;
      magnitude += std::abs(x);
    }
    const Rounding u = rounding_of<T>();
    const long double divisor = op == ReduceOp::avg ? ranks : 1;
    const long double expected = sum / divisor;
    const long double bound =
        2 * ((ranks * u.accumulator + hops * u.element) * magnitude / divisor +
             u.element * std::abs(expected) + (hops + 1) * u.smallest);
    if (!(std::abs(to_real(found) - expected) <= bound)) fail(expected, bound);
  }
}

}  // namespace lockstep::tests

// Sums in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

namespace lockstep::kernels {

// Sums down columns: so many columns side by side, in T over so many rows, then in double.
inline constexpr std::int64_t column_strip = 128;
inline constexpr std::int64_t column_run = 32;

// Sum of term(i) for i in [0, n) in double, over independent lanes that are added in a fixed tree
// at the end: the compiler may vectorise it without changing the order. Short sums have one lane.
template <class Term>
double lane_sum(std::int64_t n, Term term) {
  constexpr std::int64_t lanes = 16;
  double sum[lanes] = {};
  std::int64_t i = 0;
  if (n >= lanes) {
    for (; i + lanes <= n; i += lanes) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        sum[lane] += static_cast<double>(term(i + lane));
      }
    }
    for (std::int64_t width = lanes / 2; width > 0; width /= 2) {
      for (std::int64_t lane = 0; lane < width; ++lane) sum[lane] += sum[lane + width];
    }
  }
  for (; i < n; ++i) sum[0] += static_cast<double>(term(i));
  return sum[0];
}

// The largest of x[0..n), n > 0, leaving out NaN (minus infinity if nothing else is there).
template <class T>
T lane_max(std::int64_t n, const T* x) {
  constexpr std::int64_t lanes = 16;
  using Vector [[gnu::vector_size(lanes * sizeof(T))]] = T;
  T largest = -std::numeric_limits<T>::infinity();
  std::int64_t i = 0;
  if (n >= lanes) {
    Vector lane_largest = largest - Vector{};
    for (; i + lanes <= n; i += lanes) {
      Vector v;
      std::memcpy(&v, x + i, sizeof v);
      lane_largest = v > lane_largest ? v : lane_largest;
    }
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      largest = std::max(largest, static_cast<T>(lane_largest[lane]));
    }
  }
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

}  // namespace lockstep::kernels

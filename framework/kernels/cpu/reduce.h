// Sums in a fixed order.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::kernels {

// Sum of term(i) for i in [0, n) in double, over independent lanes that are added in a fixed tree
// at the end: the compiler may vectorise it without changing the order.
template <class Term>
double lane_sum(std::int64_t n, Term term) {
  constexpr std::int64_t lanes = 16;
  std::array<double, lanes> sum{};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      sum[static_cast<std::size_t>(lane)] += static_cast<double>(term(i + lane));
    }
  }
  for (std::int64_t lane = 0; i + lane < n; ++lane) {
    sum[static_cast<std::size_t>(lane)] += static_cast<double>(term(i + lane));
  }
  for (std::size_t width = lanes / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) sum[lane] += sum[lane + width];
  }
  return sum[0];
}

// The largest of x[0..n), n > 0; NaN if any is NaN.
template <class T>
T lane_max(std::int64_t n, const T* x) {
  T largest = x[0];
  for (std::int64_t i = 1; i < n; ++i) largest = x[i] > largest || x[i] != x[i] ? x[i] : largest;
  return largest;
}

}  // namespace lockstep::kernels

// What one core can compute: the rate of multiply-adds in registers, the bound that no matrix
// product passes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "framework/kernels/cpu/simd.h"

namespace lockstep::benchmarks {

// float32 operations in a second, a multiply-add being two; the best of several short runs, since
// other work on the machine only ever slows one down.
inline double measure_fma_peak() {
  using Clock = std::chrono::steady_clock;
  using Vector = kernels::Vector<float>;
  // Enough independent chains to hide the latency of two units, few enough for 16 registers.
  constexpr int chains = 12, iterations = 100'000, runs = 20;
  double best = 0;
  for (int run = 0; run < runs; ++run) {
    Vector factor{};
    Vector sum[chains] = {};
    // Not known to the compiler, so that it cannot leave work out.
    asm volatile("" : "+x"(factor));
    for (Vector& each : sum) asm volatile("" : "+x"(each));
    const auto start = Clock::now();
    for (int i = 0; i < iterations; ++i)
#pragma GCC unroll 12
      for (int chain = 0; chain < chains; ++chain)
        sum[chain] = kernels::multiply_add<float>(sum[chain], factor, factor);
    for (Vector& each : sum) asm volatile("" : : "x"(each));
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, 2.0 * chains * kernels::lanes<float> * iterations / seconds);
  }
  return best;
}

}  // namespace lockstep::benchmarks

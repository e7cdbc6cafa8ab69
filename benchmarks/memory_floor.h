// What an all-reduce costs in memory bandwidth alone: lower bounds for its time on this host,
// measured.
//
// One thread per core, without any waiting between ranks. "fused": every rank's data is read once
// and the sum written to every rank once, the least traffic that leaves the result in n buffers.
// "pairwise": what a ring moves, n - 1 additions of one operand into another, then n - 1 copies.
// Each thread keeps to its own part in every repetition, so that while everything fits the caches
// no data crosses between cores, which real ranks cannot avoid: below some MiB the floors are
// loose.
#pragma once

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

namespace lockstep::benchmarks {

using FloorBody = void (*)(std::span<float* const> data, std::size_t begin, std::size_t end);

template <std::size_t n>
void fused_floor_of(float* const* data, std::size_t begin, std::size_t end) {
  std::array<float*, n> d;
  std::copy_n(data, n, d.begin());
  constexpr std::size_t lanes = 16;
  for (std::size_t i = begin; i + lanes <= end; i += lanes) {
    std::array<float, lanes> sum;
    for (std::size_t k = 0; k < lanes; ++k) sum[k] = d[0][i + k];
#pragma GCC unroll 8
    for (std::size_t r = 1; r < n; ++r)
      for (std::size_t k = 0; k < lanes; ++k) sum[k] += d[r][i + k];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t k = 0; k < lanes; ++k) d[r][i + k] = sum[k];
  }
}

inline void fused_floor(std::span<float* const> data, std::size_t begin, std::size_t end) {
  constexpr std::array bodies = {fused_floor_of<1>, fused_floor_of<2>, fused_floor_of<3>,
                                 fused_floor_of<4>, fused_floor_of<5>, fused_floor_of<6>,
                                 fused_floor_of<7>, fused_floor_of<8>};
  // Beyond eight ranks: eight and the rest, as if there were two groups.
  for (std::size_t r = 0; r < data.size(); r += bodies.size()) {
    const std::size_t n = std::min(bodies.size(), data.size() - r);
    bodies[n - 1](data.data() + r, begin, end);
  }
}

inline void pairwise_floor(std::span<float* const> data, std::size_t begin, std::size_t end) {
  for (std::size_t r = 1; r < data.size(); ++r)
    for (std::size_t i = begin; i < end; ++i) data[r][i] += data[r - 1][i];
  for (std::size_t r = 1; r < data.size(); ++r)
    std::memcpy(data[r - 1] + begin, data[r] + begin, (end - begin) * sizeof(float));
}

// Seconds for one call on all of `data` (each `count` floats), the median of `repeat`.
inline double time_floor(FloorBody body, std::span<float* const> data, std::size_t count,
                         int repeat) {
  using Clock = std::chrono::steady_clock;
  const auto threads = std::max(1u, std::thread::hardware_concurrency());
  std::barrier barrier(threads);
  std::vector<double> seconds;
  const auto work = [&](std::size_t t) {
    const std::size_t begin = count * t / threads / 16 * 16;
    const std::size_t end = t + 1 == threads ? count : count * (t + 1) / threads / 16 * 16;
    for (int i = -1; i < repeat; ++i) {
      barrier.arrive_and_wait();
      const auto start = Clock::now();
      body(data, begin, end);
      barrier.arrive_and_wait();
      if (t == 0 && i >= 0)
        seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  };
  std::vector<std::thread> workers;
  for (std::size_t t = 1; t < threads; ++t) workers.emplace_back(work, t);
  work(0);
  for (std::thread& worker : workers) worker.join();
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace lockstep::benchmarks

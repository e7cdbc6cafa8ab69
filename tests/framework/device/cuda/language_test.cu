// The language of kernels (device.cuh) on a device.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "framework/device/cuda/device.cuh"
#include "tests/framework/device/cuda/device_fixture.h"

namespace lockstep::device {
namespace {

constexpr int threads = 256;

class DeviceLanguage : public OnDevice {};

template <class T>
std::vector<T> counting(std::size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{1});
  return values;
}

template <class T>
__global__ void reverse_blocks(const T* from, T* to) {
  LOCKSTEP_SHARED(tile, T[threads]);
  const unsigned start = blockIdx.x * threads;
  tile[threadIdx.x] = from[start + threadIdx.x];
  __syncthreads();
  to[start + threadIdx.x] = tile[threads - 1 - threadIdx.x];
}

TEST_F(DeviceLanguage, StaticSharedMemory) {
  const std::vector<double> values = counting<double>(8 * threads);
  const double* const from = upload(values);
  double* const to = zeros<double>(values.size());
  launch(stream(), {8, threads}, reverse_blocks<double>, from, to);
  const std::vector<double> result = download(to, values.size());
  for (std::size_t block = 0; block < values.size(); block += threads) {
    for (std::size_t i = 0; i < threads; ++i) {
      ASSERT_EQ(result[block + i], values[block + threads - 1 - i]);
    }
  }
}

__global__ void transpose(const float* from, float* to, unsigned rows) {
  float* const tile = dynamic_shared<float>();
  const unsigned columns = blockDim.x;
  for (unsigned row = 0; row < rows; ++row) {
    tile[threadIdx.x * rows + row] = from[row * columns + threadIdx.x];
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < rows * columns; i += blockDim.x) to[i] = tile[i];
}

TEST_F(DeviceLanguage, DynamicSharedMemory) {
  constexpr unsigned rows = 20;
  constexpr std::size_t count = std::size_t{rows} * threads;
  const std::vector<float> values = counting<float>(count);
  const float* const from = upload(values);
  float* const to = zeros<float>(count);
  EXPECT_THROW(
      launch(stream(), {1, threads, (std::size_t{48} << 10) + 1}, transpose, from, to, rows),
      CudaError);
  launch(stream(), {1, threads, count * sizeof(float)}, transpose, from, to, rows);
  const std::vector<float> result = download(to, count);
  EXPECT_EQ(result[1], values[threads]);
  EXPECT_EQ(result[rows], values[1]);
  EXPECT_EQ(result.back(), values.back());
}

__global__ void sum_warps(const float* from, float* to) {
  float sum = from[threadIdx.x];
  for (int delta = warp_size / 2; delta > 0; delta /= 2) {
    sum += __shfl_xor_sync(full_warp, sum, delta);
  }
  if (threadIdx.x % warp_size == 0) to[threadIdx.x / warp_size] = sum;
}

TEST_F(DeviceLanguage, WarpSums) {
  const std::vector<float> values = counting<float>(threads);
  const float* const from = upload(values);
  float* const to = zeros<float>(threads / warp_size);
  launch(stream(), {1, threads}, sum_warps, from, to);
  const std::vector<float> result = download(to, threads / warp_size);
  for (std::size_t warp = 0; warp < result.size(); ++warp) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(warp * warp_size);
    EXPECT_EQ(result[warp], std::accumulate(first, first + warp_size, 0.0f));
  }
}

__global__ void shuffle_all_ways(std::int64_t* out) {
  const auto lane = static_cast<std::int64_t>(threadIdx.x);
  out[0 * warp_size + lane] = __shfl_sync(full_warp, lane, 7);
  out[1 * warp_size + lane] = __shfl_sync(full_warp, lane, 1, 8);
  out[2 * warp_size + lane] = __shfl_up_sync(full_warp, lane, 3);
  out[3 * warp_size + lane] = __shfl_down_sync(full_warp, lane, 3, 16);
  out[4 * warp_size + lane] = __ballot_sync(full_warp, lane % 3 == 0);
  out[5 * warp_size + lane] =
      __any_sync(full_warp, lane == 40) + 2 * __all_sync(full_warp, lane < 40);
}

TEST_F(DeviceLanguage, WarpOperations) {
  std::int64_t* const out = zeros<std::int64_t>(6 * warp_size);
  launch(stream(), {1, warp_size}, shuffle_all_ways, out);
  const std::vector<std::int64_t> result = download(out, 6 * warp_size);
  std::int64_t ballot = 0;
  for (int lane = 0; lane < warp_size; lane += 3) ballot |= std::int64_t{1} << lane;
  for (int lane = 0; lane < warp_size; ++lane) {
    const auto at = [&](int row) {
      return result[static_cast<std::size_t>(row * warp_size + lane)];
    };
    EXPECT_EQ(at(0), 7);
    EXPECT_EQ(at(1), lane / 8 * 8 + 1);
    EXPECT_EQ(at(2), lane < 3 ? lane : lane - 3);
    EXPECT_EQ(at(3), lane % 16 < 13 ? lane + 3 : lane);
    EXPECT_EQ(at(4), ballot);
    EXPECT_EQ(at(5), 2);
  }
}

__global__ void count_below(int* out, int limit) {
  const bool below = static_cast<int>(threadIdx.x) < limit;
  const int count = __syncthreads_count(below);
  const int all = __syncthreads_and(below);
  const int any = __syncthreads_or(below);
  if (threadIdx.x == 0) {
    out[0] = count;
    out[1] = all != 0;
    out[2] = any != 0;
  }
}

TEST_F(DeviceLanguage, CountingBarriers) {
  int* const out = zeros<int>(3);
  launch(stream(), {1, threads}, count_below, out, 77);
  EXPECT_EQ(download(out, 3), (std::vector<int>{77, 0, 1}));
  launch(stream(), {1, threads}, count_below, out, threads);
  EXPECT_EQ(download(out, 3), (std::vector<int>{threads, 1, 1}));
}

template <class T>
__global__ void copy_vectors(const T* from, T* to) {
  const unsigned first = threadIdx.x * Vector16<T>::size;
  Vector16<T> vector = load16(from + first);
  for (T& lane : vector.lane) lane = static_cast<T>(lane + T{1});
  store16(to + first, vector);
}

template <class T>
void expect_copied(std::vector<T> values, const std::vector<T>& result) {
  for (T& value : values) value = static_cast<T>(value + T{1});
  EXPECT_EQ(result, values);
}

TEST_F(DeviceLanguage, SixteenBytesAtATime) {
  const auto check = [&]<class T>(T) {
    const std::vector<T> values = counting<T>(threads * Vector16<T>::size);
    const T* const from = upload(values);
    T* const to = zeros<T>(values.size());
    launch(stream(), {1, threads}, copy_vectors<T>, from, to);
    expect_copied(values, download(to, values.size()));
  };
  check(float{});
  check(double{});
  check(std::uint8_t{});
  check(std::int64_t{});
}

// Each block draws a number when its part is written; the last one adds all parts up.
__global__ void sum_in_last_block(const float* from, float* parts, std::uint32_t* drawn,
                                  float* sum) {
  LOCKSTEP_SHARED(is_last, bool);
  if (threadIdx.x == 0) {
    float part = 0;
    for (unsigned i = 0; i < warp_size; ++i) part += from[blockIdx.x * warp_size + i];
    parts[blockIdx.x] = part;
    is_last = fetch_add_acquire_release(drawn, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  float total = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) total += parts[block];
  *sum = total;
}

TEST_F(DeviceLanguage, TheLastBlockSeesWhatTheOthersWrote) {
  constexpr unsigned blocks = 20;
  const float* const from = upload(std::vector<float>(blocks * warp_size, 1.0f));
  float* const parts = zeros<float>(blocks);
  std::uint32_t* const drawn = zeros<std::uint32_t>(1);
  float* const sum = zeros<float>(1);
  launch(stream(), {blocks, warp_size}, sum_in_last_block, from, parts, drawn, sum);
  EXPECT_EQ(download(sum, 1)[0], static_cast<float>(blocks * warp_size));
}

__global__ void count_atomically(unsigned* counters) {
  atomicAdd(&counters[0], 2u);
  atomicMax(&counters[1], threadIdx.x);
  atomicMin(&counters[2], threadIdx.x);
  atomicOr(&counters[3], 1u << threadIdx.x % 5);
  if (atomicCAS(&counters[4], 0u, threadIdx.x + 1) == 0u) atomicExch(&counters[5], 9u);
}

TEST_F(DeviceLanguage, IntegerAtomics) {
  unsigned* const counters = upload(std::vector<unsigned>{0, 0, 1000, 0, 0, 0});
  launch(stream(), {2, threads}, count_atomically, counters);
  const std::vector<unsigned> result = download(counters, 6);
  EXPECT_EQ(result[0], 4u * threads);
  EXPECT_EQ(result[1], threads - 1u);
  EXPECT_EQ(result[2], 0u);
  EXPECT_EQ(result[3], 31u);
  EXPECT_GE(result[4], 1u);
  EXPECT_EQ(result[5], 9u);
}

}  // namespace
}  // namespace lockstep::device

// The language of kernels (device.cuh) on a device.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "framework/device/buffer.h"
#include "framework/device/cuda/cuda_context.h"
#include "framework/device/cuda/device.cuh"

namespace lockstep::device {
namespace {

constexpr int threads = 256;

template <class T>
__global__ void reverse_blocks(const T* from, T* to) {
  LOCKSTEP_SHARED(tile, T[threads]);
  const unsigned start = blockIdx.x * threads;
  tile[threadIdx.x] = from[start + threadIdx.x];
  __syncthreads();
  to[start + threadIdx.x] = tile[threads - 1 - threadIdx.x];
}

__global__ void sum_warps(const float* from, float* to) {
  float sum = from[threadIdx.x];
  for (int delta = warp_size / 2; delta > 0; delta /= 2) {
    sum += __shfl_xor_sync(full_warp, sum, delta);
  }
  if (threadIdx.x % warp_size == 0) to[threadIdx.x / warp_size] = sum;
}

class DeviceLanguage : public testing::Test {
 protected:
  template <class T>
  T* upload(const std::vector<T>& values) {
    buffers_.emplace_back(context_->allocator(), values.size() * sizeof(T));
    context_->upload(buffers_.back().data(), values.data(), values.size() * sizeof(T));
    return static_cast<T*>(buffers_.back().data());
  }
  template <class T>
  std::vector<T> download(const T* values, std::size_t count) {
    std::vector<T> result(count);
    context_->download(result.data(), values, count * sizeof(T));
    return result;
  }
  const CudaStream& stream() { return cuda_stream(context_->compute_stream()); }

  std::unique_ptr<Context> context_ = make_cuda_context(0, 0);
  std::vector<Buffer> buffers_;
};

TEST_F(DeviceLanguage, SharedMemoryAndBarrier) {
  std::vector<double> values(8 * threads);
  std::iota(values.begin(), values.end(), 1.0);
  const double* const from = upload(values);
  double* const to = upload(std::vector<double>(values.size()));
  launch(stream(), {8, threads}, reverse_blocks<double>, from, to);
  const std::vector<double> result = download(to, values.size());
  for (std::size_t block = 0; block < values.size(); block += threads) {
    for (std::size_t i = 0; i < threads; ++i) {
      ASSERT_EQ(result[block + i], values[block + threads - 1 - i]);
    }
  }
}

TEST_F(DeviceLanguage, WarpShuffles) {
  std::vector<float> values(threads);
  std::iota(values.begin(), values.end(), 1.0f);
  const float* const from = upload(values);
  float* const to = upload(std::vector<float>(threads / warp_size));
  launch(stream(), {1, threads}, sum_warps, from, to);
  const std::vector<float> result = download(to, threads / warp_size);
  for (std::size_t warp = 0; warp < result.size(); ++warp) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(warp * warp_size);
    EXPECT_EQ(result[warp], std::accumulate(first, first + warp_size, 0.0f));
  }
}

}  // namespace
}  // namespace lockstep::device

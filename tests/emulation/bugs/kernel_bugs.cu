// Bugs within one kernel.
#include "framework/device/cuda/device.cuh"
#include "tests/emulation/bugs/bugs.h"
#include "tests/emulation/bugs/device_array.h"

namespace lockstep::emulation::bugs {
namespace {

using device::launch;

constexpr unsigned threads = 64;

__global__ void reverse(float* data, bool with_barrier) {
  LOCKSTEP_SHARED(tile, float[threads]);
  tile[threadIdx.x] = static_cast<float>(threadIdx.x) + 1.0f;
  if (with_barrier) __syncthreads();
  data[threadIdx.x] = tile[threads - 1 - threadIdx.x];
}

bool missing_barrier(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<float> array(0, threads);
  launch(stream, {1, threads}, reverse, array.data(), !with_bug);
  return array.values(stream).front() == threads;
}

__global__ void fill(float* data, unsigned count, float value) {
  for (unsigned i = threadIdx.x; i < count; i += threads) data[i] = value;
}

bool out_of_bounds(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<float> array(0, threads);
  launch(stream, {1, threads}, fill, array.data(), with_bug ? threads + 1 : threads, 2.0f);
  return all_are(array.values(stream), 2.0f);
}

__global__ void fill_shared(float* data, unsigned count) {
  LOCKSTEP_SHARED(tile, float[threads]);
  float* const elements = tile;
  for (unsigned i = threadIdx.x; i < count; i += threads) elements[i] = 3.0f;
  __syncthreads();
  data[threadIdx.x] = tile[threadIdx.x];
}

bool shared_out_of_bounds(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<float> array(0, threads);
  launch(stream, {1, threads}, fill_shared, array.data(), with_bug ? threads + 1 : threads);
  return all_are(array.values(stream), 3.0f);
}

__global__ void meet(float* data, unsigned meeting) {
  if (threadIdx.x < meeting) __syncthreads();
  data[threadIdx.x] = 4.0f;
}

bool divergent_barrier(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<float> array(0, threads);
  launch(stream, {1, threads}, meet, array.data(), with_bug ? threads / 2 : threads);
  return all_are(array.values(stream), 4.0f);
}

__global__ void share_in_halves(float* data, unsigned mask) {
  const unsigned lane = threadIdx.x % warpSize;
  float value = static_cast<float>(lane);
  if (lane < warpSize / 2) value = __shfl_sync(mask, value, 3);
  data[threadIdx.x] = value;
}

bool wrong_mask(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<float> array(0, threads);
  launch(stream, {1, threads}, share_in_halves, array.data(), with_bug ? 0xffffffffu : 0x0000ffffu);
  return array.values(stream)[5] == 3.0f;
}

__global__ void copy16(const float* from, float* to) {
  device::store16(to + 4 * threadIdx.x, device::load16(from + 4 * threadIdx.x));
}

bool misaligned(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<float> from(0, 4 * threads + 4);
  const DeviceArray<float> to(0, 4 * threads);
  launch(stream, {1, threads}, copy16, from.data() + (with_bug ? 1 : 0), to.data());
  return all_are(to.values(stream), 0.0f);
}

__global__ void add_up(const float* values, float* sum, unsigned count) {
  for (unsigned i = 0; i < count; ++i) *sum += values[i];
}

bool uninitialised_memory(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  device::CudaDeviceMemory memory(on_device(0));
  auto* const values = static_cast<float*>(memory.allocate(threads * sizeof(float)));
  const DeviceArray<float> sum(0, 1);
  launch(stream, {1, threads}, fill, values, with_bug ? threads - 1 : threads, 1.0f);
  launch(stream, {1, 1}, add_up, values, sum.data(), threads);
  const bool right = sum.values(stream)[0] == threads;
  memory.deallocate(values, threads * sizeof(float));
  return right;
}

bool use_after_free(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  device::CudaDeviceMemory memory(on_device(0));
  auto* const values = static_cast<float*>(memory.allocate(threads * sizeof(float)));
  const DeviceArray<float> sum(0, 1);
  launch(stream, {1, threads}, fill, values, threads, 1.0f);
  if (with_bug) memory.deallocate(values, threads * sizeof(float));
  launch(stream, {1, 1}, add_up, values, sum.data(), threads);
  const bool right = sum.values(stream)[0] == threads;
  if (!with_bug) memory.deallocate(values, threads * sizeof(float));
  return right;
}

__global__ void use_much_shared(float* data) {
  float* const tile = device::dynamic_shared<float>();
  LOCKSTEP_SHARED(more, float[8 * 1024]);
  tile[threadIdx.x] = 1.0f;
  more[threadIdx.x] = 2.0f;
  data[threadIdx.x] = tile[threadIdx.x] + more[threadIdx.x];
}

bool too_much_shared(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<float> array(0, threads);
  const std::size_t dynamic_bytes = (with_bug ? 32 : 8) * 1024;
  launch(stream, {1, threads, dynamic_bytes}, use_much_shared, array.data());
  return all_are(array.values(stream), 3.0f);
}

}  // namespace

const std::vector<Bug>& kernel_bugs() {
  static const std::vector<Bug> bugs{{"missing_barrier", missing_barrier},
                                     {"out_of_bounds", out_of_bounds},
                                     {"shared_out_of_bounds", shared_out_of_bounds},
                                     {"divergent_barrier", divergent_barrier},
                                     {"wrong_mask", wrong_mask},
                                     {"misaligned", misaligned},
                                     {"uninitialised_memory", uninitialised_memory},
                                     {"use_after_free", use_after_free},
                                     {"too_much_shared", too_much_shared}};
  return bugs;
}

}  // namespace lockstep::emulation::bugs

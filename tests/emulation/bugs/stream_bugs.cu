// Bugs in the host's use of streams, events and memory.
#include <cstdlib>

#include "framework/device/cuda/device.cuh"
#include "tests/emulation/bugs/bugs.h"
#include "tests/emulation/bugs/device_array.h"

namespace lockstep::emulation::bugs {
namespace {

using device::launch;
using device::SpinLimit;

constexpr unsigned threads = 64;

__global__ void set(float* data, float value) {
  data[threadIdx.x] = value;
}

__global__ void add(const float* from, float* to) {
  to[threadIdx.x] += from[threadIdx.x];
}

bool missing_event(bool with_bug) {
  device::CudaStream compute = make_stream(0);
  device::CudaStream communication = make_stream(0);
  const DeviceArray<float> gradient(0, threads);
  const DeviceArray<float> sum(0, threads);
  launch(compute, {1, threads}, set, gradient.data(), 6.0f);
  const device::Event ready = compute.record();
  if (!with_bug) communication.wait(ready);
  launch(communication, {1, threads}, add, gradient.data(), sum.data());
  const bool right = all_are(sum.values(communication), 6.0f);
  compute.synchronize();
  return right;
}

bool unrecorded_event(bool with_bug) {
  const device::CudaStream stream = make_stream(0);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (!with_bug) cudaEventRecord(event, stream.native());
  device::check_cuda(cudaStreamWaitEvent(stream.native(), event), "cudaStreamWaitEvent",
                     stream.place());
  cudaEventDestroy(event);
  return true;
}

// Page-locked memory that the host and the device use in turn.
class Staging {
 public:
  ~Staging() { memory_.deallocate(data_, bytes); }
  float* data() const { return data_; }
  static constexpr std::size_t bytes = threads * sizeof(float);

 private:
  device::CudaHostMemory memory_{on_device(0)};
  float* data_ = static_cast<float*>(memory_.allocate(bytes));
};

bool host_reads_too_early(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<float> array(0, threads);
  const Staging staging;
  launch(stream, {1, threads}, set, array.data(), 7.0f);
  cudaMemcpyAsync(staging.data(), array.data(), Staging::bytes, cudaMemcpyDefault, stream.native());
  if (!with_bug) stream.synchronize();
  const bool right = staging.data()[0] == 7.0f;
  stream.synchronize();
  return right;
}

bool host_reuses_too_early(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<float> array(0, threads);
  const Staging staging;
  for (unsigned i = 0; i < threads; ++i) staging.data()[i] = 8.0f;
  cudaMemcpyAsync(array.data(), staging.data(), Staging::bytes, cudaMemcpyDefault, stream.native());
  if (!with_bug) stream.synchronize();
  for (unsigned i = 0; i < threads; ++i) staging.data()[i] = 0.0f;
  return all_are(array.values(stream), 8.0f);
}

bool copy_too_long(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<float> array(0, threads);
  const Staging staging;
  for (unsigned i = 0; i < threads; ++i) staging.data()[i] = 9.0f;
  device::check_cuda(
      cudaMemcpyAsync(array.data(), staging.data(), Staging::bytes + (with_bug ? sizeof(float) : 0),
                      cudaMemcpyDefault, stream.native()),
      "cudaMemcpyAsync", stream.place());
  return all_are(array.values(stream), 9.0f);
}

bool host_touches_device_memory(bool with_bug) {
  device::CudaStream stream = make_stream(0);
  const DeviceArray<float> array(0, threads);
  launch(stream, {1, threads}, set, array.data(), 1.0f);
  stream.synchronize();
  return (with_bug ? array.data()[0] : array.values(stream)[0]) == 1.0f;
}

__global__ void wait_for_one(const unsigned* flag) {
  device::spin_until(
      flag, [](unsigned value) { return value == 1; }, SpinLimit{});
}

__global__ void set_one(unsigned* flag) {
  device::store_release(flag, 1u);
}

// A kernel waits for one of another stream, and between the two launches the host frees memory,
// which waits for the device.
bool free_while_waited_for(bool with_bug) {
  device::CudaStream waits = make_stream(0);
  device::CudaStream sets = make_stream(0);
  const DeviceArray<unsigned> flag(0, 1);
  device::CudaDeviceMemory memory(on_device(0));
  void* const block = memory.allocate(64);
  launch(waits, {1, 1}, wait_for_one, flag.data());
  if (with_bug) memory.deallocate(block, 64);
  launch(sets, {1, 1}, set_one, flag.data());
  waits.synchronize();
  if (!with_bug) memory.deallocate(block, 64);
  return true;
}

// The same, but it is the loading of the second kernel that may wait for the device.
bool load_while_waited_for(bool with_bug) {
  device::CudaStream waits = make_stream(0);
  device::CudaStream sets = make_stream(0);
  const DeviceArray<unsigned> flag(0, 1);
  cudaFuncAttributes attributes;
  cudaFuncGetAttributes(&attributes, wait_for_one);
  if (!with_bug) cudaFuncGetAttributes(&attributes, set_one);
  launch(waits, {1, 1}, wait_for_one, flag.data());
  launch(sets, {1, 1}, set_one, flag.data());
  waits.synchronize();
  return true;
}

}  // namespace

const std::vector<Bug>& stream_bugs() {
  const MachineOptions loaded{.devices = 1, .lazy_loading = false};
  static const std::vector<Bug> bugs{
      {"missing_event", missing_event, loaded},
      {"unrecorded_event", unrecorded_event, loaded},
      {"host_reads_too_early", host_reads_too_early, loaded},
      {"host_reuses_too_early", host_reuses_too_early, loaded},
      {"copy_too_long", copy_too_long, loaded},
      {"host_touches_device_memory", host_touches_device_memory, loaded},
      {"free_while_waited_for", free_while_waited_for, loaded},
      {"load_while_waited_for", load_while_waited_for, {.devices = 1}}};
  return bugs;
}

}  // namespace lockstep::emulation::bugs

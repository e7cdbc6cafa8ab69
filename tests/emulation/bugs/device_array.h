// Memory and streams for the planted bugs.
#pragma once

#include <cstddef>
#include <vector>

#include "framework/device/cuda/cuda_memory.h"
#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::emulation::bugs {

inline device::CudaPlace on_device(int index) {
  return {index, index};
}

inline device::CudaStream make_stream(int index) {
  return {on_device(index), device::StreamPriority::normal, "stream"};
}

// Zeroed memory of a device.
template <class T>
class DeviceArray {
 public:
  DeviceArray(int index, std::size_t count)
      : memory_(on_device(index)),
        data_(static_cast<T*>(memory_.allocate(count * sizeof(T)))),
        count_(count) {
    const device::CudaStream stream = make_stream(index);
    cudaMemsetAsync(data_, 0, count * sizeof(T), stream.native());
  }
  ~DeviceArray() { memory_.deallocate(data_, count_ * sizeof(T)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  // Copied by `stream` after what it holds.
  std::vector<T> values(device::CudaStream& stream) const {
    std::vector<T> result(count_);
    device::check_cuda(cudaMemcpyAsync(result.data(), data_, count_ * sizeof(T), cudaMemcpyDefault,
                                       stream.native()),
                       "cudaMemcpyAsync", stream.place());
    stream.synchronize();
    return result;
  }

 private:
  device::CudaDeviceMemory memory_;
  T* data_;
  std::size_t count_;
};

template <class T>
bool all_are(const std::vector<T>& values, T expected) {
  for (const T& value : values) {
    if (value != expected) return false;
  }
  return true;
}

}  // namespace lockstep::emulation::bugs

// A value that kernels leave in device memory for the host.
#pragma once

#include "framework/device/buffer.h"
#include "framework/device/context.h"
#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::kernels::cuda {

template <class T>
class Result {
 public:
  explicit Result(device::Context& context)
      : context_(context), buffer_(context.allocator(), sizeof(T)) {}
  // Every byte of the value is set to `byte` first, in the order of the compute stream.
  Result(device::Context& context, int byte) : Result(context) {
    const device::CudaStream& stream = device::cuda_stream(context.compute_stream());
    stream.activate();
    device::check_cuda(cudaMemsetAsync(buffer_.data(), byte, sizeof(T), stream.native()),
                       "cudaMemsetAsync", stream.place());
  }

  T* on_device() const { return static_cast<T*>(buffer_.data()); }
  // Waits for the kernels that were launched before.
  T get() const {
    T value;
    context_.download(&value, buffer_.data(), sizeof(T));
    return value;
  }

 private:
  device::Context& context_;
  device::Buffer buffer_;
};

}  // namespace lockstep::kernels::cuda

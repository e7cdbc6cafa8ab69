// Memory of a GPU and page-locked memory of the host, straight from CUDA. Both calls are slow and
// wait for the device: they are sources for a caching allocator, not for use in a step.
#pragma once

#include "framework/device/allocator.h"
#include "framework/device/cuda/cuda_error.h"

namespace lockstep::device {

// Plain cudaMalloc, aligned to 256 bytes. It can be exported to other processes, which
// stream-ordered memory can't. Throws std::bad_alloc where the device has no more.
class CudaDeviceMemory final : public Allocator {
 public:
  explicit CudaDeviceMemory(const CudaPlace& place) : place_(place) {}
  void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer, std::size_t bytes) noexcept override;

 private:
  CudaPlace place_;
};

// Page-locked, and at the same address on every GPU: copies to and from it need no host, and
// kernels can read and write it.
class CudaHostMemory final : public Allocator {
 public:
  explicit CudaHostMemory(const CudaPlace& place) : place_(place) {}
  void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer, std::size_t bytes) noexcept override;

 private:
  CudaPlace place_;
};

}  // namespace lockstep::device

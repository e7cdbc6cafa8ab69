#include "framework/device/cuda/cuda_memory.h"

#include <cuda_runtime.h>

#include <string>

#include "framework/device/out_of_memory.h"

namespace lockstep::device {
namespace {

void require_memory(cudaError_t status, const char* call, const CudaPlace& place, std::size_t bytes,
                    const std::string& memory) {
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the caller may free and try again
    throw OutOfMemory(bytes, memory);
  }
  check_cuda(status, call, place);
}

}  // namespace

void* CudaDeviceMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  check_cuda(cudaSetDevice(place_.device), "cudaSetDevice", place_);
  void* pointer = nullptr;
  require_memory(cudaMalloc(&pointer, bytes), "cudaMalloc", place_, bytes,
                 "the memory of cuda:" + std::to_string(place_.device));
  return pointer;
}

// What fails here has failed before, and shows at the next call that can report it.
void CudaDeviceMemory::deallocate(void* pointer, std::size_t) noexcept {
  if (pointer == nullptr) return;
  cudaSetDevice(place_.device);
  cudaFree(pointer);
}

void* CudaHostMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  check_cuda(cudaSetDevice(place_.device), "cudaSetDevice", place_);
  void* pointer = nullptr;
  require_memory(cudaHostAlloc(&pointer, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
                 "cudaHostAlloc", place_, bytes, "the page-locked memory of this host");
  return pointer;
}

void CudaHostMemory::deallocate(void* pointer, std::size_t) noexcept {
  if (pointer == nullptr) return;
  cudaSetDevice(place_.device);  // or a thread that has chosen none would make a context on cuda:0
  cudaFreeHost(pointer);
}

}  // namespace lockstep::device

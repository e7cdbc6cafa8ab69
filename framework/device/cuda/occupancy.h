// How many blocks run side by side. Kernels whose blocks wait for each other may not have more.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::device {

// Loads the kernel's code on the stream's device. The first launch would do it otherwise, and may
// wait for the device then: for ever, where a kernel there waits for the one to be loaded.
template <class... Parameters>
void load_kernel(const CudaStream& stream, void (*kernel)(Parameters...)) {
  stream.activate();
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes", stream.place());
}

// How many blocks of the kernel an otherwise empty device holds at a time.
template <class... Parameters>
int coresident_blocks(const CudaStream& stream, void (*kernel)(Parameters...), int threads,
                      std::size_t shared_bytes = 0) {
  stream.activate();
  int blocks = 0;
  int multiprocessors = 0;
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes),
             "cudaOccupancyMaxActiveBlocksPerMultiprocessor", stream.place());
  check_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount,
                                    stream.place().device),
             "cudaDeviceGetAttribute", stream.place());
  return blocks * multiprocessors;
}

}  // namespace lockstep::device

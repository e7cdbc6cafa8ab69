// Typed kernel launches: the one way in which host code starts a kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::device {

// Grid, block and dynamic shared memory of a launch, and where it stands in the source.
struct LaunchShape {
  LaunchShape(dim3 grid_blocks, dim3 block_threads, std::size_t dynamic_shared_bytes = 0,
              const char* source_file = __builtin_FILE(), int source_line = __builtin_LINE())
      : grid(grid_blocks),
        block(block_threads),
        shared_bytes(dynamic_shared_bytes),
        file(source_file),
        line(source_line) {}

  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  const char* file;
  int line;
};

// Throws CudaError where a launch at this place was refused.
void check_launch(cudaError_t status, const LaunchShape& shape, const CudaPlace& place);

// Enqueues `kernel` on `stream`. Arguments are converted to the kernel's parameter types and
// copied.
//   launch(stream, {blocks, 256}, scale_kernel<float>, data, count, factor);
template <class... Parameters, class... Arguments>
void launch(const CudaStream& stream, const LaunchShape& shape, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  stream.activate();
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream.native();
  check_launch(cudaLaunchKernelEx(&config, kernel,
                                  static_cast<Parameters>(std::forward<Arguments>(arguments))...),
               shape, stream.place());
}

}  // namespace lockstep::device

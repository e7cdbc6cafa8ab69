#include "framework/device/cuda/cuda_error.h"

#include <fmt/format.h>

#include "framework/device/cuda/launch.h"

namespace lockstep::device {
namespace {

[[noreturn]] void fail(cudaError_t status, const std::string& call, const CudaPlace& place) {
  const std::string rank = place.rank < 0 ? "" : fmt::format(", rank {}", place.rank);
  throw CudaError(status, fmt::format("{} failed on cuda:{}{}: {} ({})", call, place.device, rank,
                                      cudaGetErrorString(status), cudaGetErrorName(status)));
}

}  // namespace

void check_cuda(cudaError_t status, const char* call, const CudaPlace& place) {
  if (status != cudaSuccess) fail(status, call, place);
}

void check_launch(cudaError_t status, const LaunchShape& shape, const CudaPlace& place) {
  if (status == cudaSuccess) return;
  fail(status,
       fmt::format("the launch of {}x{}x{} blocks of {}x{}x{} threads with {} bytes of dynamic "
                   "shared memory at {}:{}",
                   shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y,
                   shape.block.z, shape.shared_bytes, shape.file, shape.line),
       place);
}

}  // namespace lockstep::device

#include "framework/device/cuda/cuda_error.h"

#include <fmt/format.h>

#include "framework/device/cuda/launch.h"
#include "framework/device/graph.h"

namespace lockstep::device {
namespace {

bool is_of_capture(cudaError_t status) {
  switch (status) {
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void fail(cudaError_t status, const std::string& call, const CudaPlace& place) {
  const std::string rank = place.rank < 0 ? "" : fmt::format(", rank {}", place.rank);
  const std::string message =
      fmt::format("{} failed on cuda:{}{}: {} ({})", call, place.device, rank,
                  cudaGetErrorString(status), cudaGetErrorName(status));
  if (is_of_capture(status)) throw CaptureError(message);
  throw CudaError(status, message);
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

// What a build without the CUDA toolkit says about GPUs.
#include "framework/base/error.h"
#include "framework/device/cuda/cuda_context.h"

namespace lockstep::device {
namespace {

constexpr const char* reason = "this program was built without CUDA";

}  // namespace

void prepare_cuda_process() {}

CudaDevices cuda_devices() {
  return {0, reason};
}

CudaDeviceDescription describe_cuda_device(int index) {
  throw StartupError("cuda:" + std::to_string(index) + " was asked for: " + reason);
}

std::unique_ptr<Context> make_cuda_context(int index, int) {
  throw StartupError("cuda:" + std::to_string(index) + " was asked for: " + reason);
}

}  // namespace lockstep::device

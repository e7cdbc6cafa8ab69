// What a build without the CUDA toolkit says about kernels of GPUs.
#include "framework/base/error.h"
#include "framework/kernels/kernels.h"

namespace lockstep::kernels {

const Kernels& cuda_kernels() {
  throw UsageError("kernels for GPUs were asked for: this program was built without CUDA");
}

}  // namespace lockstep::kernels

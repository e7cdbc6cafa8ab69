#include "framework/kernels/cuda/cuda_kernels.h"

namespace lockstep::kernels {

const Kernels& cuda_kernels() {
  static const cuda::CudaKernels kernels;
  return kernels;
}

}  // namespace lockstep::kernels

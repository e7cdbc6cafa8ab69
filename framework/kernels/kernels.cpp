#include "framework/kernels/kernels.h"

#include "framework/kernels/cpu/cpu_kernels.h"

namespace lockstep::kernels {

const Kernels& cpu_kernels() {
  static const CpuKernels kernels;
  return kernels;
}

const Kernels& kernels_for(const Context& context) {
  return context.device().kind == DeviceKind::cuda ? cuda_kernels() : cpu_kernels();
}

}  // namespace lockstep::kernels

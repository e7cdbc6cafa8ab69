#include "framework/kernels/kernels.h"

#include "framework/base/error.h"
#include "framework/kernels/cpu/cpu_kernels.h"

namespace lockstep::kernels {

const Kernels& cpu_kernels() {
  static const CpuKernels kernels;
  return kernels;
}

const Kernels& kernels_for(const Context& context) {
  if (context.device().kind == DeviceKind::cpu) return cpu_kernels();
  throw UsageError("no kernels for device " + device::to_string(context.device()) +
                   " in this build");
}

}  // namespace lockstep::kernels

// The tests of the folder above on a GPU.
#include "framework/device/cuda/cuda_context.h"
#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {

std::unique_ptr<Context> make_test_context(int /*threads*/) {
  return device::make_cuda_context(0, 0);
}

const Kernels& kernels_under_test() {
  return cuda_kernels();
}

// Most time goes into emulating threads that have nothing to do.
int trials(int wanted) {
  return wanted / 8 + 1;
}

}  // namespace lockstep::kernels::testing

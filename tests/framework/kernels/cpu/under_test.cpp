#include "framework/device/cpu/cpu_context.h"
#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {

std::unique_ptr<Context> make_test_context(int threads) {
  return device::make_cpu_context(threads);
}

const Kernels& kernels_under_test() {
  return cpu_kernels();
}

int trials(int wanted) {
  return wanted;
}

}  // namespace lockstep::kernels::testing

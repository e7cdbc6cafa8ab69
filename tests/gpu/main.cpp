// Runs the tests of CUDA code on a real GPU; on a machine without one, says so and exits with 77,
// which CTest counts as skipped.
#include <gtest/gtest.h>

#include <cstdio>

#include "framework/device/cuda/cuda_context.h"

int main(int argc, char** argv) {
  constexpr int skipped = 77;
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests)) {
    const auto devices = lockstep::device::cuda_devices();
    if (devices.count == 0) {
      std::printf("skipped: %s\n", devices.reason.c_str());
      return skipped;
    }
  }
  return RUN_ALL_TESTS();
}

// What is said of GPUs where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_context.h"

namespace lockstep::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CudaWithoutDriver, HasNoDevicesAndSaysWhy) {
  const CudaDevices devices = cuda_devices();
  EXPECT_EQ(devices.count, 0);
  EXPECT_EQ(devices.reason, "no NVIDIA driver is installed");
}

TEST(CudaWithoutDriver, RefusesContexts) {
  EXPECT_THAT([] { make_cuda_context(2, 0); },
              ThrowsMessage<StartupError>(
                  AllOf(HasSubstr("cuda:2"), HasSubstr("no NVIDIA driver is installed"))));
}

}  // namespace
}  // namespace lockstep::device

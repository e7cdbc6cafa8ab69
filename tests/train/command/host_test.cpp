#include "train/command/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_context.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Where there are GPUs, the emulated ones of tests/end_to_end tell what becomes of them.
bool has_gpus() {
  return device::cuda_devices().count > 0;
}

TEST(ChooseDevice, TakesCpuWorkersWhereThereIsNoGpu) {
  EXPECT_EQ(choose_device("cpu", 1, false).line, "training with 1 CPU worker");
  if (has_gpus()) GTEST_SKIP() << "there are GPUs";
  const DeviceChoice choice = choose_device("auto", 8, false);
  EXPECT_EQ(choice.device, "cpu");
  EXPECT_THAT(choice.line,
              AllOf(HasSubstr("no GPU found ("), HasSubstr(device::cuda_devices().reason),
                    HasSubstr("): training with 8 CPU workers")));
}

TEST(ChooseDevice, NamesTheWaysOutWhereGpusAreMissing) {
  if (has_gpus()) GTEST_SKIP() << "there are GPUs";
  try {
    choose_device("cuda", 8, false);
    FAIL();
  } catch (const StartupError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("asked for 8 GPUs, found 0"),
                                    HasSubstr("--device cpu"), HasSubstr("--oversubscribe")));
  }
}

TEST(ChooseEndpoint, IsPrivateUnlessAskedFor) {
  EXPECT_FALSE(choose_endpoint({}));
  Config::Comm comm;
  comm.port = 4711;
  EXPECT_EQ(choose_endpoint(comm)->host, "127.0.0.1");
  EXPECT_EQ(choose_endpoint(comm)->port, 4711);
  comm.interface = "lo";
  EXPECT_EQ(choose_endpoint(comm)->host, "127.0.0.1");
  comm.port.reset();
  EXPECT_EQ(choose_endpoint(comm)->port, 0);
}

TEST(ChooseEndpoint, ListsTheInterfacesThereAre) {
  Config::Comm comm;
  comm.interface = "nosuch0";
  try {
    choose_endpoint(comm);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("comm.interface: found nosuch0"), HasSubstr("lo")));
  }
}

TEST(ForeignVariables, AreThoseOfOtherLaunchers) {
  ::setenv("WORLD_SIZE", "16", 1);
  ::setenv("SLURM_PROCID", "3", 1);
  EXPECT_THAT(foreign_variables(), AllOf(Contains("WORLD_SIZE"), Contains("SLURM_PROCID"),
                                         Not(Contains("PATH")), Not(Contains("LOCAL_RANK"))));
  ::unsetenv("WORLD_SIZE");
  ::unsetenv("SLURM_PROCID");
  EXPECT_THAT(foreign_variables(), Not(Contains("WORLD_SIZE")));
}

}  // namespace
}  // namespace lockstep::train

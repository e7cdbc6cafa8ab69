#include "train/command/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "framework/base/error.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ChooseDevice, TakesCpuWorkersWhereThereIsNoGpu) {
  EXPECT_EQ(choose_device("auto", 8, false).device, "cpu");
  EXPECT_EQ(choose_device("auto", 8, false).line, "no GPU found: training with 8 CPU workers");
  EXPECT_EQ(choose_device("cpu", 1, false).line, "training with 1 CPU worker");
}

TEST(ChooseDevice, NamesTheWaysOutWhereGpusAreMissing) {
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

#include "comm/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/gloo/gloo.h"
#include "comm/mpi/mpi.h"
#include "comm/nccl/nccl.h"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

template <class E>
std::string error_of(const BackendWish& wish) {
  try {
    return "chose " + choose_backend(wish).name;
  } catch (const E& error) {
    return error.what();
  }
}

TEST(Backends, AreListedWhetherBuiltInOrNot) {
  EXPECT_THAT(backend_words(), ::testing::ElementsAre("auto", "ring", "nccl", "gloo", "mpi",
                                                      "ring+gloo", "ring+mpi"));
  EXPECT_THAT(algorithm_words(), AllOf(Contains("two_shot"), Contains("bcube")));
  for (const Backend& backend : backends()) {
    EXPECT_EQ(backend.algorithms.front(), "auto") << backend.name;
    EXPECT_FALSE(backend.devices.empty()) << backend.name;
  }
}

TEST(Backends, AutoIsTheRingOnTheCpuAndSaysWhy) {
  const BackendChoice choice = choose_backend({});
  EXPECT_EQ(choice.name, "ring");
  EXPECT_THAT(choice.reason, HasSubstr("one host"));
}

// COLL-3
TEST(Backends, UnknownOnesAreAnsweredWithTheOnesThatAre) {
  EXPECT_THAT(error_of<ConfigError>({.backend = "carrier_pigeon"}),
              AllOf(HasSubstr("carrier_pigeon"), HasSubstr("auto, ring")));
}

TEST(Backends, AlgorithmsOfOthersAreRefusedWithTheirOwn) {
  EXPECT_THAT(error_of<ConfigError>({.backend = "ring", .algorithm = "bcube"}),
              AllOf(HasSubstr("bcube"), HasSubstr("two_shot"), HasSubstr("ring")));
}

TEST(Backends, ThoseThatAreNotBuiltInSaySo) {
  for (const Backend& backend : backends()) {
    if (backend.built_in) continue;
    EXPECT_THAT(error_of<ConfigError>({.backend = backend.name}),
                AllOf(HasSubstr(backend.name + " is not in this build"), HasSubstr("ring")));
  }
}

TEST(Backends, MpiNeedsProcesses) {
  if (!has_mpi_module()) GTEST_SKIP() << "MPI is not in this build";
  EXPECT_THAT(error_of<ConfigError>({.backend = "mpi", .ranks_are_threads = true}),
              HasSubstr("processes"));
}

TEST(Backends, OfOtherDevicesDoNotServeTheCpu) {
  if (!has_nccl()) GTEST_SKIP() << "NCCL is not in this build";
  EXPECT_THAT(error_of<StartupError>({.backend = "nccl"}),
              AllOf(HasSubstr("nccl"), HasSubstr("ring")));
}

}  // namespace
}  // namespace lockstep::comm

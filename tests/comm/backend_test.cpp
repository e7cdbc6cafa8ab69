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
                                                      "ring+gloo", "ring+mpi", "ring+nccl"));
  EXPECT_THAT(algorithm_words(), AllOf(Contains("two_shot"), Contains("bcube")));
  for (const Backend& backend : backends()) {
    EXPECT_EQ(backend.algorithms.front(), "auto") << backend.name;
    EXPECT_FALSE(backend.devices.empty()) << backend.name;
  }
}

// A program whose ring serves both kinds of device, or CPUs alone.
std::vector<Backend> made_up(std::vector<DeviceKind> of_ring) {
  std::vector<Backend> all(2);
  all[0].name = "ring";
  all[0].devices = std::move(of_ring);
  all[1].name = "nccl";
  all[1].devices = {DeviceKind::cuda};
  return all;
}

TEST(Backends, AutoGoesByWhereTheWorkersAreAndSaysWhy) {
  const auto both = made_up({DeviceKind::cpu, DeviceKind::cuda});
  struct Case {
    BackendWish wish;
    std::string name, reason;
  };
  const std::vector<Case> cases = {
      {{.workers = 4}, "ring", "CPUs of one host"},
      {{.workers = 4, .hosts = 2}, "ring+gloo", "2 hosts"},
      {{.device = DeviceKind::cuda, .workers = 4}, "ring", "address each other's memory"},
      {{.device = DeviceKind::cuda, .workers = 4, .gpus_have_peer_access = false},
       "nccl",
       "cannot address"},
      {{.device = DeviceKind::cuda, .workers = 4, .hosts = 2}, "nccl", "2 hosts"},
      // One GPU has nobody to reach.
      {{.device = DeviceKind::cuda, .workers = 1, .gpus_have_peer_access = false}, "ring", "GPUs"},
  };
  for (const Case& c : cases) {
    const BackendChoice choice = choose_automatically(c.wish, both);
    EXPECT_EQ(choice.name, c.name);
    EXPECT_THAT(choice.reason, AllOf(HasSubstr("auto"), HasSubstr(c.reason)));
  }
}

TEST(Backends, AutoLeavesGpusToNcclWhereTheRingDoesNotServeThem) {
  const BackendChoice choice =
      choose_automatically({.device = DeviceKind::cuda, .workers = 2}, made_up({DeviceKind::cpu}));
  EXPECT_EQ(choice.name, "nccl");
  EXPECT_THAT(choice.reason, HasSubstr("does not serve GPUs"));
}

TEST(Backends, TheRingNeedsGpusThatReachEachOther) {
  BackendWish wish{.backend = "ring", .device = DeviceKind::cuda, .workers = 2};
  EXPECT_EQ(choose_backend(wish).name, "ring");
  wish.gpus_have_peer_access = false;
  EXPECT_THAT(error_of<StartupError>(wish), HasSubstr("cannot address each other's memory"));
  wish.workers = 1;
  EXPECT_EQ(choose_backend(wish).name, "ring");
}

TEST(Backends, NcclTakesAGpuForEachWorker) {
  if (!has_nccl()) GTEST_SKIP() << "NCCL is not in this build";
  EXPECT_THAT(error_of<StartupError>({.backend = "nccl",
                                      .device = DeviceKind::cuda,
                                      .workers = 2,
                                      .workers_share_gpus = true}),
              HasSubstr("takes a GPU for each worker"));
}

TEST(Backends, AutoOfThisProgramIsTheRingOnTheCpu) {
  EXPECT_EQ(choose_backend({.workers = 3}).name, "ring");
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

TEST(Backends, TheRingHasFewerAlgorithmsBetweenGpus) {
  BackendWish wish{.backend = "ring", .algorithm = "halving_doubling", .workers = 4};
  EXPECT_EQ(choose_backend(wish).name, "ring");
  wish.device = DeviceKind::cuda;
  for (const char* const algorithm : {"halving_doubling", "reduce_broadcast"}) {
    wish.algorithm = algorithm;
    EXPECT_THAT(error_of<ConfigError>(wish),
                AllOf(HasSubstr(algorithm), HasSubstr("one of auto, ring, two_shot, one_shot for"),
                      HasSubstr("ring between GPUs")));
  }
}

TEST(Backends, RingAndNcclNeedsHostsOfOneSize) {
  if (!has_nccl()) GTEST_SKIP() << "NCCL is not in this build";
  BackendWish wish{.backend = "ring+nccl",
                   .device = DeviceKind::cuda,
                   .workers = 3,
                   .hosts = 2,
                   .most_workers_on_host = 2};
  EXPECT_THAT(error_of<ConfigError>(wish), HasSubstr("found 3 on 2 hosts with up to 2 on each"));
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

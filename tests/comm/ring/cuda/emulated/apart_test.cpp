// GPUs that cannot address each other's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/memory/cuda/peer_memory.h"
#include "comm/ring/ring.h"
#include "tests/comm/memory/group_ranks.h"
#include "tests/comm/ring/cuda/cuda_ranks.h"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::soon;

TEST(CudaWithoutPeerAccess, IsAnErrorOfAllRanksThatNamesTwo) {
  testing::run_as_threads(3, [](Group& group) {
    const device::CudaPlace place{group.rank(), group.rank()};
    EXPECT_THAT([&] { PeerMemory(group, place, soon()); },
                ::testing::ThrowsMessage<StartupError>(
                    AllOf(HasSubstr("rank 0 (cuda:0"), HasSubstr("rank 1 (cuda:1"),
                          HasSubstr("nccl goes through the host"))));
  });
}

TEST(CudaWithoutPeerAccess, IsKnownBeforehand) {
  const std::vector<int> two = {0, 1};
  EXPECT_FALSE(gpus_reach_each_other(two));
}

}  // namespace
}  // namespace lockstep::comm

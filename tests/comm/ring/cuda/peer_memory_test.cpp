// Memory that the GPUs of all ranks address.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/ring/ring.h"
#include "tests/comm/memory/group_ranks.h"
#include "tests/comm/ring/cuda/cuda_ranks.h"

namespace lockstep::comm {
namespace {

using testing::soon;

// Handles open in other processes; in the emulation, in this one too.
bool opens_handles_in_this_process() {
  const device::CudaPlace place{0, 0};
  device::CudaDeviceMemory memory(place);
  void* const block = memory.allocate(256);
  bool opens = true;
  try {
    const device::ImportedMemory imported(device::export_memory(block, place), place);
  } catch (const device::CudaError&) {
    opens = false;
    cudaGetLastError();
  }
  memory.deallocate(block, 256);
  return opens;
}

class SharedMemory : public ::testing::TestWithParam<Sharing> {};

// Every rank writes its number into every other's part, and finds all numbers in its own.
TEST_P(SharedMemory, EveryRankReachesEveryPart) {
  if (GetParam() == Sharing::handles && !opens_handles_in_this_process())
    GTEST_SKIP() << "the CUDA runtime opens handles in other processes only";
  testing::run_as_threads(4, [](Group& group) {
    const int gpu = group.rank() % device::cuda_devices().count;
    const auto context = device::make_cuda_context(gpu, group.rank());
    PeerMemory peers(group, {gpu, group.rank()}, soon(), GetParam());
    EXPECT_EQ(peers.least(10 + group.rank(), soon()), 10);
    const std::shared_ptr<SymmetricBuffer> memory = peers.allocate(4 * sizeof(int), soon());
    ASSERT_EQ(memory->size(), 4);
    for (int rank = 0; rank < group.size(); ++rank)
      context->upload(memory->part(rank).data() + group.rank() * sizeof(int), &gpu, sizeof(int));
    context->compute_stream().synchronize();
    peers.least(0, soon());  // all have written
    std::vector<int> found(4, -1);
    context->download(found.data(), memory->local().data(), 4 * sizeof(int));
    for (int rank = 0; rank < group.size(); ++rank)
      EXPECT_EQ(found[static_cast<std::size_t>(rank)], rank % device::cuda_devices().count);
  });
}

// A rank that is done with its memory leaves it to those who still read it: between processes it
// waits for them, within one it need not.
TEST_P(SharedMemory, StaysWhileAnyRankReadsIt) {
  if (GetParam() == Sharing::handles && !opens_handles_in_this_process())
    GTEST_SKIP() << "the CUDA runtime opens handles in other processes only";
  testing::run_as_threads(2, [](Group& group) {
    const int gpu = group.rank() % device::cuda_devices().count;
    const auto context = device::make_cuda_context(gpu, group.rank());
    PeerMemory peers(group, {gpu, group.rank()}, soon(), GetParam());
    std::shared_ptr<SymmetricBuffer> memory = peers.allocate(sizeof(int), soon());
    const int own = 7 + group.rank();
    context->upload(memory->local().data(), &own, sizeof(int));
    context->compute_stream().synchronize();
    peers.least(0, soon());  // both have written
    const auto start = device::Clock::now();
    constexpr std::chrono::milliseconds reading{200};
    if (group.rank() == 1) {
      std::this_thread::sleep_for(reading);
      int found = 0;
      context->download(&found, memory->part(0).data(), sizeof(int));
      EXPECT_EQ(found, 7);
    }
    memory.reset();
    if (group.rank() == 0 && GetParam() == Sharing::handles) {
      EXPECT_GE(device::Clock::now() - start, reading / 2);
    }
  });
}

TEST(CudaPeers, ARankThatDoesNotComeIsNamed) {
  testing::run_as_threads(3, [](Group& group) {
    const auto deadline = device::Clock::now() + std::chrono::milliseconds(500);
    PeerMemory peers(group, {0, group.rank()}, soon());
    if (group.rank() == 1) return;
    const testing::Caught caught = testing::catch_rank_error([&] { peers.least(0, deadline); });
    EXPECT_EQ(caught.rank, 1);
    EXPECT_THAT(caught.message, ::testing::HasSubstr("did not come to share its GPU's memory"));
  });
}

INSTANTIATE_TEST_SUITE_P(CudaPeers, SharedMemory,
                         ::testing::Values(Sharing::by_process, Sharing::handles),
                         [](const auto& test) {
                           return std::string(test.param == Sharing::handles ? "handles"
                                                                             : "addresses");
                         });

TEST(CudaPeers, RanksThatAllocateDifferentSizesAreTold) {
  testing::run_as_threads(3, [](Group& group) {
    PeerMemory peers(group, {0, group.rank()}, soon());
    const testing::Caught caught =
        testing::catch_rank_error([&] { peers.allocate(group.rank() == 2 ? 100 : 200, soon()); });
    EXPECT_EQ(caught.rank, 2);
    EXPECT_THAT(caught.message, ::testing::HasSubstr("rank 2 allocates 100 bytes"));
  });
}

TEST(CudaPeers, AllRanksAreToldThatOneHasNoRoom) {
  testing::run_as_threads(2, [](Group& group) {
    PeerMemory peers(group, {0, group.rank()}, soon());
    EXPECT_THROW(peers.allocate(std::size_t{1} << 50, soon()), StartupError);
    EXPECT_EQ(peers.allocate(0, soon())->bytes(), 0u);
  });
}

TEST(CudaPeers, GpusOfThisMachineAreAskedWhetherTheyReachEachOther) {
  const std::vector<int> one = {0};
  EXPECT_TRUE(gpus_reach_each_other(one));
}

}  // namespace
}  // namespace lockstep::comm

// Collectives one after the other: against the computation's streams, in groups within the group.
#include <gtest/gtest.h>

#include "comm/backend.h"
#include "tests/comm/ring/cuda/cuda_ranks.h"

namespace lockstep::comm::ring::cuda {
namespace {

std::vector<float> filled(std::size_t count, int value) {
  return std::vector<float>(count, static_cast<float>(value));
}

// A cheap source of sizes that is the same on all ranks.
std::size_t size_of_turn(int turn) {
  const auto bits = static_cast<std::size_t>(turn + 1) * 0x9E3779B97F4A7C15u;
  return (bits >> 20) % (std::size_t{1} << (bits >> 40) % 13);
}

class ManyInARow : public testing::TestWithParam<std::string> {
 protected:
  void all_reduce(int ranks, int turns) {
    run_cuda_ranks(
        ranks,
        [=](CudaRank& rank) {
          const int sum_of_ranks = ranks * (ranks - 1) / 2;
          for (int turn = 0; turn < turns; ++turn) {
            if ((turn * 7 + rank.index()) % 11 == 0)
              std::this_thread::sleep_for(std::chrono::microseconds(300));
            const std::size_t count = size_of_turn(turn);
            const OnGpu<float> data(rank.context(), filled(count, turn % 1000 + rank.index()));
            rank.communicator()
                .all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag)
                .wait();
            ASSERT_EQ(data.values(), filled(count, ranks * (turn % 1000) + sum_of_ranks)) << turn;
          }
        },
        {.options = {.timeout = std::chrono::seconds(20), .algorithm = GetParam()}});
  }
};

TEST_P(ManyInARow, OfRandomSizesWithRandomDelays) {
  all_reduce(5, 60);
}

TEST_P(ManyInARow, SlowTenThousand) {
  all_reduce(3, 10'000);
}

INSTANTIATE_TEST_SUITE_P(CudaRing, ManyInARow, testing::Values("ring", "one_shot", "two_shot"),
                         [](const auto& test) { return test.param; });

// The host waits for nothing between: the streams wait for each other.
TEST(CudaRingOrder, ABufferIsReducedAfterItIsWrittenAndReusedAfterItIsRead) {
  run_cuda_ranks(3, [](CudaRank& rank) {
    constexpr std::size_t count = 3000;
    Stream& compute = rank.context().compute_stream();
    const OnGpu<float> data(rank.context(), filled(count, 0));
    const OnGpu<float> fresh(rank.context(), filled(count, rank.index() + 1));
    const OnGpu<float> results(rank.context(), filled(count * 3, 0));
    Work reduced;
    for (std::size_t turn = 0; turn < 3; ++turn) {
      reduced.wait_on(compute);
      rank.context().copy(data.range().data, fresh.range().data, count * sizeof(float), compute);
      rank.stream().wait(compute.record());
      reduced = rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag);
      reduced.wait_on(compute);
      rank.context().copy(static_cast<float*>(results.range().data) + turn * count,
                          data.range().data, count * sizeof(float), compute);
    }
    reduced.wait();
    EXPECT_TRUE(reduced.done());
    EXPECT_LE(reduced.times().start, reduced.times().end);
    EXPECT_EQ(results.values(), filled(3 * count, 6));
  });
}

TEST(CudaRingOrder, GroupsWithinTheGroup) {
  run_cuda_ranks(5, [](CudaRank& rank) {
    const bool takes_part = rank.index() < 4;
    const auto part = rank.communicator().split(takes_part ? rank.index() % 2 : -1, -rank.index());
    ASSERT_EQ(part != nullptr, takes_part);
    const OnGpu<float> data(rank.context(), filled(1000, rank.index()));
    if (part) {
      EXPECT_EQ(part->size(), 2);
      EXPECT_EQ(part->rank(), rank.index() < 2 ? 1 : 0);
      part->all_reduce(data.range(), ReduceOp::sum, rank.stream()).wait();
      EXPECT_EQ(data.values(), filled(1000, rank.index() % 2 == 0 ? 2 : 4));
    }
    rank.communicator().all_reduce(data.range(), ReduceOp::max, rank.stream(), no_tag).wait();
    EXPECT_EQ(data.values(), filled(1000, 4));
  });
}

TEST(CudaRingOrder, AveragesBeyondTheRangeOfTheirSums) {
  run_cuda_ranks(8, [](CudaRank& rank) {
    for (const float value : {20'000.0f, 1e-7f}) {
      for (const std::size_t count : {std::size_t{100}, std::size_t{5000}}) {
        const std::vector<float16> values(count, float16(value));
        const OnGpu<float16> data(rank.context(), values);
        rank.communicator().all_reduce(data.range(), ReduceOp::avg, rank.stream(), no_tag).wait();
        EXPECT_EQ(data.values(), values);
      }
    }
  });
}

TEST(CudaRingBackend, SaysWhichAlgorithmItTakes) {
  for (const std::string algorithm : {"ring", "one_shot", "two_shot"})
    run_cuda_ranks(2,
                   [&](CudaRank& rank) {
                     EXPECT_EQ(rank.communicator().algorithm_for(64), algorithm);
                     EXPECT_EQ(rank.communicator().algorithm_for(64 << 20), algorithm);
                   },
                   {.options = {.algorithm = algorithm}});
  run_cuda_ranks(2, [](CudaRank& rank) {
    EXPECT_EQ(rank.communicator().algorithm_for(64), "one_shot");
    EXPECT_EQ(rank.communicator().algorithm_for(64 << 20), "ring");
  });
}

TEST(CudaRingBackend, ReducesMemoryThatPeersAddress) {
  run_cuda_ranks(3, [](CudaRank& rank) {
    const auto memory = rank.communicator().addressable_memory(1000 * sizeof(float));
    ASSERT_EQ(memory->size(), 3);
    std::vector<float> values = filled(1000, rank.index());
    const std::size_t bytes = values.size() * sizeof(float);
    rank.context().upload(memory->local().data(), values.data(), bytes);
    rank.stream().wait(rank.context().compute_stream().record());
    rank.communicator()
        .all_reduce({memory->local().data(), 1000, DType::float32}, ReduceOp::sum, rank.stream(),
                    no_tag)
        .wait();
    rank.context().download(values.data(), memory->local().data(), bytes);
    EXPECT_EQ(values, filled(1000, 3));
  });
}

TEST(CudaRingBackend, IsTheRingForRanksOnGpus) {
  auto groups = make_thread_groups(2);
  std::vector<std::thread> threads;
  const auto store = make_memory_store();
  for (auto& group : groups)
    threads.emplace_back([&] {
      const int rank = group->rank();
      const auto context = device::make_cuda_context(0, rank);
      const auto stream = context->make_stream("communication");
      const auto ring = find_backend("ring").make(
          {.rank = rank,
           .size = 2,
           .device = context->device(),
           .store = *store,
           .join = [&](const std::string&, int, int) { return std::move(group); },
           .prefix = "test",
           .interface = std::nullopt},
          {});
      const OnGpu<float> data(*context, filled(5000, rank + 1));
      ring->all_reduce(data.range(), ReduceOp::sum, *stream).wait();
      EXPECT_EQ(data.values(), filled(5000, 3));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lockstep::comm::ring::cuda

#include "train/parallel/consistency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>

#include "comm/ring/ring.h"
#include "framework/device/cpu/cpu_context.h"
#include "tests/train/parallel/toy_training.h"
#include "train/parallel/rank_votes.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A world with a few tensors of its own on every rank, equal at first.
struct World {
  explicit World(Rank rank, std::int64_t elements = 50'000)
      : large(Tensor::empty(rank.context, Shape{elements})),
        small(Tensor::empty(rank.context, Shape{3}, DType::float64)),
        check(rank.context, rank.communicator,
              {{"parameter 'large'", large, true}, {"momentum of 'small'", small}}),
        stream(rank.context.compute_stream()) {
    for (std::int64_t i = 0; i < elements; ++i)
      large.data<float>()[i] = static_cast<float>(i % 7);  // repeated values
    for (std::int64_t i = 0; i < 3; ++i) small.data<double>()[i] = 0.5;
  }
  std::optional<Divergence> run(std::int64_t step = 1) { return check.run(step, stream); }

  Tensor large, small;
  ConsistencyCheck check;
  Stream& stream;
};

TEST(ConsistencyCheck, EqualReplicasPass) {
  for (int size : {1, 2, 5}) run_ranks(size, [](Rank rank) { EXPECT_FALSE(World(rank).run()); });
}

TEST(ConsistencyCheck, NamesRanksTensorAndMagnitude) {
  run_ranks(4, [](Rank rank) {
    World world(rank);
    if (rank.communicator.rank() == 2) {
      world.large.data<float>()[17] += 0.25f;
      world.large.data<float>()[40'000] -= 0.5f;
      world.small.data<double>()[1] = 0;
    }
    const auto found = world.run(12);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->tensor, "parameter 'large'");
    EXPECT_EQ(found->tensors, 2u);
    EXPECT_EQ(found->elements, 2);
    EXPECT_EQ(found->largest_difference, 0.5);
    EXPECT_EQ(found->reference, 0);
    EXPECT_THAT(found->ranks, ElementsAre(2));
    EXPECT_EQ(found->describe(),
              "replicas differ after step 12: rank 2 differs from the others in parameter 'large' "
              "(2 elements, by up to 0.5) and in 1 more tensor");
  });
}

TEST(ConsistencyCheck, AMajorityOutvotesRankZero) {
  run_ranks(3, [](Rank rank) {
    World world(rank);
    if (rank.communicator.rank() == 0) world.small.data<double>()[2] += 1;
    const auto found = world.run();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->reference, 1);
    EXPECT_THAT(found->describe(), AllOf(HasSubstr("rank 0 differs"), HasSubstr("of 'small'")));
    world.check.take_values_of(found->reference, world.stream);
    EXPECT_EQ(world.small.data<double>()[2], 0.5);
    EXPECT_FALSE(world.run());
  });
}

TEST(ConsistencyCheck, OfTwoRanksNobodyIsRight) {
  run_ranks(2, [](Rank rank) {
    World world(rank);
    if (rank.communicator.rank() == 1)
      world.large.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
    const auto found = world.run();
    ASSERT_TRUE(found);
    EXPECT_THAT(found->describe(),
                HasSubstr("ranks 0 and 1 differ in parameter 'large' (1 element, "
                          "by up to inf)"));
    world.check.take_values_of(found->reference, world.stream);
    EXPECT_EQ(world.large.data<float>()[3], 3);
    EXPECT_FALSE(world.run());
  });
}

// What a plain XOR or a sum of values would miss.
TEST(ConsistencyCheck, SeesExchangesAndRepeatedChanges) {
  run_ranks(2, [](Rank rank) {
    World world(rank);
    float* const values = world.large.data<float>();
    const bool other = rank.communicator.rank() == 1;
    if (other) std::swap(values[1], values[2]);  // within a block
    EXPECT_TRUE(world.run());
    if (other) std::swap(values[1], values[2]);
    EXPECT_FALSE(world.run());
    if (other) std::swap_ranges(values, values + 16'384, values + 16'384);  // whole blocks
    EXPECT_TRUE(world.run());
    if (other) std::swap_ranges(values, values + 16'384, values + 16'384);
    if (other)  // the same change twice
      for (int i : {7, 14}) values[i] += 1;
    EXPECT_TRUE(world.run());
  });
}

TEST(ConsistencyCheck, EveryBitOfOneElementCounts) {
  run_ranks(2, [](Rank rank) {
    World world(rank, 100);
    for (int bit = 0; bit < 32; ++bit) {
      auto& element = reinterpret_cast<std::uint32_t&>(world.large.data<float>()[99]);
      if (rank.communicator.rank() == 0) element ^= 1u << bit;
      EXPECT_TRUE(world.run()) << bit;
      if (rank.communicator.rank() == 0) element ^= 1u << bit;
    }
    EXPECT_FALSE(world.run());
  });
}

TEST(ConsistencyCheck, WeightsDigestKnowsNeitherRanksNorThreadsNorOrder) {
  std::set<std::string> digests;
  for (int threads : {1, 3}) {
    const auto context = device::make_cpu_context(threads);
    auto groups = comm::make_thread_groups(1);
    const auto communicator = comm::make_ring_communicator(std::move(groups[0]), {});
    const Rank rank{*context, *communicator};
    World world(rank);
    EXPECT_FALSE(world.run());
    digests.insert(world.check.weights_digest());
    ConsistencyCheck reversed(
        *context, *communicator,
        {{"momentum of 'small'", world.small}, {"parameter 'large'", world.large, true}});
    EXPECT_FALSE(reversed.run(1, world.stream));
    digests.insert(reversed.weights_digest());
  }
  EXPECT_EQ(digests.size(), 1u);
  EXPECT_EQ(digests.begin()->size(), 16u);
}

// GRAD-4, in parameters and in the optimizer's state.
class DamagedReplica : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, DamagedReplica, ::testing::Values(2, 4));

TEST_P(DamagedReplica, IsFoundWhereverTheDamageIs) {
  for (const bool in_state : {false, true}) {
    ToyProblem problem;
    problem.momentum = 0.9;
    problem.after_update = [&](Rank rank, Replica& replica, std::int64_t step) {
      if (step == 5 && rank.communicator.rank() == rank.communicator.size() - 2) {
        const Tensor& weight = in_state ? replica.optimizer().state()[0].segments[0]
                                        : replica.model().named_parameters()[2].variable.value();
        reinterpret_cast<std::uint32_t&>(weight.data<float>()[3]) ^= 1;
      }
      require_equal_replicas(rank, replica, step);
    };
    const auto errors =
        run_ranks_catching(GetParam(), [&](Rank rank) { train_toy(rank, problem); });
    for (const auto& error : errors) {
      EXPECT_THAT(message_of(error), HasSubstr("after step 5"));
      EXPECT_THAT(message_of(error), HasSubstr(in_state ? "momentum of '" : "'hidden.1.weight'"));
      EXPECT_THAT(message_of(error),
                  HasSubstr(GetParam() == 2 ? "ranks 0 and 1 differ" : "rank 2 differs"));
    }
  }
}

TEST(Votes, WithoutAMajorityNobodyIsRight) {
  const std::vector<std::int64_t> tie{4, 4, 9, 9}, all_different{1, 2, 3}, odd{7, 5, 7, 7, 6};
  EXPECT_EQ(in_words(count_votes(tie)), "ranks 2, 3 differ from rank 0, and no majority agrees");
  EXPECT_FALSE(count_votes(all_different).majority);
  EXPECT_EQ(in_words(count_votes(odd)), "ranks 1, 4 differ from the others");
}

}  // namespace
}  // namespace lockstep::train

#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "framework/base/error.h"

namespace lockstep::data {
namespace {

// The samples of an epoch in their order, through groups and batches, as a world of `world_size`
// sees them.
std::vector<std::int64_t> order_of(const Sampler& sampler, std::int64_t epoch, int world_size = 1) {
  std::vector<std::int64_t> order;
  Group group;
  for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    const RowRange batch = sampler.batch(step);
    for (int rank = 0; rank < world_size; ++rank) {
      const RowRange mine = shard(batch.size(), rank, world_size);
      for (std::int64_t row = mine.begin; row < mine.end; ++row) {
        const std::int64_t position = batch.begin + row;
        sampler.group(epoch, sampler.group_of(position), group);
        EXPECT_LE(group.positions.begin, position);
        EXPECT_LT(position, group.positions.end);
        order.push_back(group.sample_at(group.row_at(position)));
      }
    }
  }
  return order;
}

std::vector<std::int64_t> file_order(std::int64_t samples) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(Shard, CutsABatchWithoutGapsOrOverlaps) {
  for (int world_size = 1; world_size <= 9; ++world_size) {
    for (const std::int64_t rows : {0, 1, 2, 7, 8, 9, 43, 64, 1003}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        const RowRange range = shard(rows, rank, world_size);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.size(), rows / world_size);
        EXPECT_LE(range.size(), rows / world_size + 1);
        next = range.end;
      }
      EXPECT_EQ(next, rows);
    }
  }
}

struct Case {
  std::int64_t samples, batch_size, block_rows, group_blocks;
};

class EverySampler : public testing::TestWithParam<Case> {
 protected:
  SamplerOptions options() const {
    SamplerOptions options;
    options.samples = GetParam().samples;
    options.batch_size = GetParam().batch_size;
    options.block_rows = GetParam().block_rows;
    options.group_blocks = GetParam().group_blocks;
    options.seed = 17;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Sizes, EverySampler,
                         testing::Values(Case{1, 1, 0, 0}, Case{3, 8, 0, 0}, Case{1003, 64, 0, 0},
                                         Case{1003, 64, 10, 7}, Case{1000, 64, 10, 7},
                                         Case{1003, 1, 1, 1}, Case{1003, 500, 10, 3},
                                         Case{64, 64, 64, 1}, Case{65, 64, 64, 1}));

TEST_P(EverySampler, TakesEachSampleOnceInEveryEpoch) {
  const Sampler sampler(options());
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    auto order = order_of(sampler, epoch);
    orders.insert(order);
    std::ranges::sort(order);
    EXPECT_EQ(order, file_order(GetParam().samples));
  }
  if (GetParam().samples > 10) {
    EXPECT_EQ(orders.size(), 3) << "epochs share an order";
  }
}

TEST_P(EverySampler, HasTheSameOrderForEveryWorldSize) {
  const Sampler sampler(options());
  const auto order = order_of(sampler, 1);
  for (int world_size = 2; world_size <= 9; ++world_size) {
    EXPECT_EQ(order_of(Sampler(options()), 1, world_size), order) << world_size;
  }
}

TEST_P(EverySampler, KeepsFileOrderWithoutShuffle) {
  SamplerOptions plain = options();
  plain.shuffle = false;
  EXPECT_EQ(order_of(Sampler(plain), 0), file_order(GetParam().samples));
  EXPECT_EQ(order_of(Sampler(plain), 5), file_order(GetParam().samples));
}

TEST_P(EverySampler, DropsAnUnevenEnd) {
  SamplerOptions dropping = options();
  dropping.drop_last = true;
  const Sampler sampler(dropping);
  EXPECT_EQ(sampler.steps_per_epoch(), GetParam().samples / GetParam().batch_size);
  auto order = order_of(sampler, 0);
  EXPECT_EQ(order.size(), sampler.steps_per_epoch() * GetParam().batch_size);
  std::ranges::sort(order);
  EXPECT_EQ(std::ranges::adjacent_find(order), order.end());
}

TEST_P(EverySampler, EndsUnevenlyWithoutPadding) {
  const Sampler sampler(options());
  std::int64_t rows = 0;
  for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    rows += sampler.batch(step).size();
  }
  EXPECT_EQ(rows, GetParam().samples);
}

TEST(Sampler, KeepsTheRowsOfAGroupTogether) {
  SamplerOptions options;
  options.samples = 1003;
  options.batch_size = 64;
  options.block_rows = 10;
  options.group_blocks = 7;
  const Sampler sampler(options);
  EXPECT_EQ(sampler.blocks(), 101);
  EXPECT_EQ(sampler.groups(), 15);
  Group group;
  std::set<std::int64_t> seen;
  for (std::int64_t number = 0; number < sampler.groups(); ++number) {
    sampler.group(4, number, group);
    EXPECT_TRUE(std::ranges::is_sorted(group.blocks));
    for (const std::int64_t block : group.blocks) EXPECT_TRUE(seen.insert(block).second);
    std::set<std::int64_t> blocks_of_rows;
    for (auto at = group.positions.begin; at < group.positions.end; ++at) {
      blocks_of_rows.insert(group.sample_at(group.row_at(at)) / 10);
    }
    EXPECT_EQ(std::vector(blocks_of_rows.begin(), blocks_of_rows.end()), group.blocks);
  }
  EXPECT_EQ(seen.size(), 101);
}

TEST(Sampler, OneGroupIsAShuffleOfAllRows) {
  SamplerOptions whole;
  whole.samples = 1003;
  whole.batch_size = 64;
  SamplerOptions blocks = whole;
  blocks.block_rows = 10;
  blocks.group_blocks = 101;
  EXPECT_EQ(order_of(Sampler(whole), 2), order_of(Sampler(blocks), 2));
}

TEST(Sampler, LeavesOutGroupsThatNoBatchReaches) {
  SamplerOptions options;
  options.samples = 100;
  options.batch_size = 60;
  options.drop_last = true;
  options.block_rows = 10;
  options.group_blocks = 2;
  EXPECT_EQ(Sampler(options).groups(), 3);
}

TEST(Sampler, RefusesOptionsOutOfRange) {
  SamplerOptions options;
  EXPECT_THROW(Sampler{options}, UsageError);
  options.samples = 1;
  EXPECT_THROW(Sampler{options}, UsageError);
  options.batch_size = 2;
  options.drop_last = true;
  EXPECT_EQ(Sampler(options).steps_per_epoch(), 0);
}

}  // namespace
}  // namespace lockstep::data

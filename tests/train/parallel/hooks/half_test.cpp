#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/train/parallel/hooks/hook_harness.h"

namespace lockstep::train {
namespace {

using ::testing::Each;

constexpr std::int64_t rows = 7, columns = 33;

double random_value(int rank, std::int64_t i) {
  return base::RandomStream(3, "gradient", static_cast<std::uint64_t>(rank))
             .uniform(static_cast<std::uint64_t>(i)) -
         0.5;
}

class HalfHooks : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Names, HalfHooks, ::testing::Values("bf16", "fp16"));

TEST_P(HalfHooks, SumWithinTheRoundingOfTheType) {
  // Each rank's value is rounded once, and the sum once.
  const double unit = std::string(GetParam()) == "bf16" ? 0x1p-8 : 0x1p-11;
  for (const DType dtype : {DType::float32, DType::float64})
    for (int size : {1, 2, 3, 8}) {
      run_ranks(size, [&](Rank rank) {
        HookHarness harness(rank, make_hook(GetParam(), {}), rows, columns, 256, dtype);
        harness.step([&](std::int64_t i) { return random_value(rank.communicator.rank(), i); });
        const auto found = harness.weight();
        for (std::size_t i = 0; i < found.size(); ++i) {
          double sum = 0, magnitudes = 0;
          for (int r = 0; r < size; ++r) {
            const double value = random_value(r, static_cast<std::int64_t>(i));
            sum += value;
            magnitudes += std::abs(value);
          }
          ASSERT_NEAR(found[i], sum, unit * (magnitudes + std::abs(sum)) + 1e-7);
        }
      });
    }
}

// COLL-1: 20,000 on each of 8 ranks is beyond float16, 1e-7 below its smallest normal number.
TEST_P(HalfHooks, NeitherOverflowNorVanish) {
  for (const double value : {20'000.0, 1e-7, 1e30, 1e-30}) {
    run_ranks(8, [&](Rank rank) {
      HookHarness harness(rank, make_hook(GetParam(), {}), rows, columns);
      harness.step([&](std::int64_t) { return value; });
      for (const double found : harness.weight()) ASSERT_NEAR(found / (8 * value), 1, 0x1p-7);
    });
  }
}

TEST_P(HalfHooks, WhatIsNotFiniteIsSoOnEveryRank) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    run_ranks(3, [&](Rank rank) {
      HookHarness harness(rank, make_hook(GetParam(), {}), rows, columns);
      const bool is_culprit = rank.communicator.rank() == 1;
      harness.step([&](std::int64_t i) { return is_culprit && i == 5 ? bad : 1.0; });
      ASSERT_FALSE(std::isfinite(harness.weight()[5]));
      harness.step([&](std::int64_t) { return 1.0; });  // and leaves no trace
      EXPECT_THAT(harness.weight(), Each(3.0));
    });
  }
}

TEST_P(HalfHooks, GiveHalfTheBytes) {
  std::uint64_t plain = 0;
  run_ranks(2, [&](Rank rank) {
    HookHarness harness(rank, make_hook(GetParam(), {}), 512, 512);
    harness.step([&](std::int64_t) { return 0.0; });
    EXPECT_THAT(harness.weight(), Each(0.0));
    for (const comm::Bucket& bucket : harness.plan().buckets)
      if (rank.communicator.rank() == 0) plain += bucket.bytes();
    EXPECT_NEAR(static_cast<double>(harness.bytes), 512 * 513 * 2, 128);
  });
  EXPECT_NEAR(static_cast<double>(plain), 512 * 513 * 4, 128);
}

TEST(Hooks, AreKnownByName) {
  EXPECT_FALSE(make_hook("none", {}));
  EXPECT_THROW(make_hook("fp8", {}), ConfigError);
}

}  // namespace
}  // namespace lockstep::train

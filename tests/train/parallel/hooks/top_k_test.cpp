#include "train/parallel/hooks/top_k.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/train/parallel/hooks/hook_harness.h"
#include "train/parallel/hooks/selection.h"

namespace lockstep::train {
namespace {

using ::testing::Each;

TEST(Selection, FindsTheThresholdOfTheLargest) {
  std::mt19937 engine(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<float> values(std::uniform_int_distribution<std::size_t>(1, 300)(engine));
    // Few different values in every other trial, so that there are ties.
    for (float& value : values)
      value = trial % 2 ? static_cast<float>(static_cast<int>(engine() % 7) - 3)
                        : std::ldexp(static_cast<float>(static_cast<int>(engine())),
                                     static_cast<int>(engine() % 60) - 70);
    const auto k = std::uniform_int_distribution<std::int64_t>(
        1, static_cast<std::int64_t>(values.size()))(engine);
    std::vector<std::uint32_t> sorted;
    for (const float value : values) sorted.push_back(magnitude_bits(value));
    std::sort(sorted.rbegin(), sorted.rend());
    const auto threshold = selection_threshold(std::span<const float>(values), k);
    EXPECT_EQ(threshold.bits, sorted[static_cast<std::size_t>(k - 1)]);
    const auto above = std::count_if(sorted.begin(), sorted.end(),
                                     [&](auto bits) { return bits > threshold.bits; });
    EXPECT_EQ(threshold.ties, k - above);
  }
}

ReductionFactory top_k(double ratio, bool may_skip = false) {
  return make_hook("top_k", {.top_k_ratio = ratio, .may_skip = may_skip});
}

TEST(TopK, EverythingIsThePlainSum) {
  for (const DType dtype : {DType::float32, DType::float64})
    run_ranks(3, [&](Rank rank) {
      HookHarness harness(rank, top_k(1), 5, 13, 256, dtype);
      for (int step = 1; step <= 3; ++step) {
        harness.step([&](std::int64_t i) {
          return static_cast<double>((i * 7 + step) % 11 + rank.communicator.rank());
        });
        const auto found = harness.weight();
        for (std::size_t i = 0; i < found.size(); ++i)
          ASSERT_EQ(found[i], 3.0 * static_cast<double>((i * 7 + step) % 11) + 3);
      }
    });
}

// What does not travel is not lost: the sums over many steps are those of all gradients, but for
// what waits in the residuals.
TEST(TopK, ResidualsDeliverTheRestLater) {
  run_ranks(2, [&](Rank rank) {
    HookHarness harness(rank, top_k(0.25), 4, 16);
    std::vector<double> total(64);
    const auto gradient = [](std::int64_t i) { return static_cast<double>(i % 16 + 1); };
    for (int step = 0; step < 40; ++step) {
      harness.step([&](std::int64_t i) { return gradient(i); }, step + 1);
      const auto found = harness.weight();
      EXPECT_LE(std::count_if(found.begin(), found.end(), [](double v) { return v != 0; }), 22);
      for (std::size_t i = 0; i < found.size(); ++i) total[i] += found[i];
    }
    for (std::size_t i = 0; i < total.size(); ++i)
      EXPECT_NEAR(total[i] / (2 * 40 * gradient(static_cast<std::int64_t>(i))), 1, 0.5) << i;
    const auto sums = std::accumulate(total.begin(), total.end(), 0.0);
    const auto residuals = harness.state<float>("residual/weight");
    const auto residual = std::accumulate(residuals.begin(), residuals.end(), 0.0);
    EXPECT_EQ(sums + 2 * residual, 2 * 40 * 4 * (16 * 17 / 2));
  });
}

TEST(TopK, AValueThatIsNotFiniteReachesEveryRankAndLeavesNoTrace) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    run_ranks(3, [&](Rank rank) {
      HookHarness harness(rank, top_k(0.1, /*may_skip=*/true), 4, 16);
      const auto gradient = [](std::int64_t i) { return static_cast<double>(i + 1); };
      harness.step(gradient, 1);
      const bool is_culprit = rank.communicator.rank() == 2;
      harness.step([&](std::int64_t i) { return is_culprit && i == 40 ? bad : gradient(i); }, 2, 1,
                   /*used=*/false);
      const auto spoilt = harness.weight();
      EXPECT_TRUE(std::any_of(spoilt.begin(), spoilt.end(), [](double v) { return v != v; }));
      harness.step(gradient, 2);
      const auto found = harness.weight();

      HookHarness clean(rank, top_k(0.1), 4, 16);
      clean.step(gradient, 1);
      clean.step(gradient, 2);
      EXPECT_EQ(found, clean.weight());
    });
}

// A residual is as large as the loss was scaled when it was made.
TEST(TopK, ResidualsFollowTheLossScale) {
  run_ranks(2, [&](Rank rank) {
    HookHarness scaled(rank, top_k(0.1), 4, 16), plain(rank, top_k(0.1), 4, 16);
    for (int step = 1; step <= 5; ++step) {
      const double scale = step < 3 ? 1024 : 512;
      const auto gradient = [&](std::int64_t i) { return static_cast<double>((i * step) % 9); };
      scaled.step([&](std::int64_t i) { return scale * gradient(i); }, step, scale);
      plain.step(gradient, step);
      auto found = scaled.weight();
      for (double& value : found) value /= scale;
      EXPECT_EQ(found, plain.weight()) << "step " << step;
    }
  });
}

TEST(TopK, CountsTheBytes) {
  run_ranks(4, [&](Rank rank) {
    HookHarness harness(rank, top_k(0.01), 400, 250);
    harness.step([&](std::int64_t i) { return static_cast<double>(i); });
    // 1 % of 100,400 elements, an index and a value each, to each of the 3 others.
    EXPECT_NEAR(static_cast<double>(harness.bytes), 1004 * 8, 8 * 4);
    EXPECT_EQ(harness.sent, 3 * harness.bytes);
  });
}

TEST(TopK, ZeroGradientsAreFine) {
  run_ranks(2, [&](Rank rank) {
    HookHarness harness(rank, top_k(0.3), 3, 5);
    harness.step([&](std::int64_t) { return 0.0; });
    EXPECT_THAT(harness.weight(), Each(0.0));
  });
}

}  // namespace
}  // namespace lockstep::train

#include "train/parallel/hooks/power_sgd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/train/parallel/hooks/hook_harness.h"
#include "train/parallel/hooks/low_rank.h"

namespace lockstep::train {
namespace {

using ::testing::Each;

constexpr std::int64_t rows = 40, columns = 60;

ReductionFactory power_sgd(int rank, std::int64_t start = 1, bool may_skip = false) {
  return make_hook(
      "power_sgd",
      {.power_sgd_rank = rank, .power_sgd_start = start, .seed = 5, .may_skip = may_skip});
}

double noise(int rank, std::int64_t i, int step = 0) {
  const base::RandomStream stream(static_cast<std::uint64_t>(rank), "noise",
                                  static_cast<std::uint64_t>(step));
  return stream.normal(static_cast<std::uint64_t>(i));
}

double norm(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

TEST(LowRank, OrthonormalizeGivesAnOrthonormalBasis) {
  constexpr int k = 4, n = 50;
  std::vector<float> vectors(k * n);
  for (std::size_t i = 0; i < vectors.size(); ++i)
    vectors[i] = static_cast<float>(1e-20 * (1 + 0.001 * noise(1, static_cast<int>(i))));
  for (int j = 0; j < k; ++j) EXPECT_TRUE(orthonormalize(vectors.data(), n, j));
  for (int a = 0; a < k; ++a)
    for (int b = 0; b < k; ++b)
      EXPECT_NEAR(dot(&vectors[static_cast<std::size_t>(a * n)],
                      &vectors[static_cast<std::size_t>(b * n)], n),
                  a == b, 1e-6);
}

TEST(LowRank, DependentVectorsBecomeZeroAndNanSpreads) {
  std::vector<double> vectors{1, 2, 2, -2, -4, -4, 0, 0, 0};
  EXPECT_TRUE(orthonormalize(vectors.data(), 3, 0));
  EXPECT_FALSE(orthonormalize(vectors.data(), 3, 1));
  EXPECT_FALSE(orthonormalize(vectors.data(), 3, 2));
  EXPECT_EQ(std::vector<double>(vectors.begin() + 3, vectors.end()), std::vector<double>(6));
  vectors[4] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(orthonormalize(vectors.data(), 3, 1));
  EXPECT_TRUE(std::isnan(vectors[3]) && std::isnan(vectors[4]));
}

// Rank 2 of 2: exact, but for rounding.
TEST(PowerSgd, RecoversAGradientOfItsRank) {
  for (const auto& [dtype, bound] :
       {std::pair{DType::float32, 1e-5}, std::pair{DType::float64, 1e-13}})
    run_ranks(3, [&, dtype = dtype, bound = bound](Rank rank) {
      HookHarness harness(rank, power_sgd(2), rows, columns, 1 << 20, dtype);
      const auto gradient = [](std::int64_t i) {
        const auto r = static_cast<double>(i / columns), c = static_cast<double>(i % columns);
        return std::sin(r) * std::cos(3 * c) + 0.1 * std::cos(r * r) * std::sin(c + 1);
      };
      harness.step(gradient);
      const auto found = harness.weight();
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], 3 * gradient(static_cast<std::int64_t>(i)), 3 * bound);
      const auto bias = harness.bias();
      for (std::size_t i = 0; i < bias.size(); ++i)
        ASSERT_NEAR(bias[i], 3 * gradient(static_cast<std::int64_t>(i)), bound);
    });
}

TEST(PowerSgd, WhatIsLeftOutIsInTheResiduals) {
  run_ranks(2, [&](Rank rank) {
    HookHarness harness(rank, power_sgd(2), rows, columns, 1 << 20, DType::float64);
    std::vector<double> total(rows * columns);
    for (int step = 1; step <= 12; ++step) {
      harness.step([&](std::int64_t i) { return noise(rank.communicator.rank(), i, step); }, step);
      const auto found = harness.weight();
      for (std::size_t i = 0; i < found.size(); ++i) {
        total[i] += found[i];
        for (int r = 0; r < 2; ++r) total[i] -= noise(r, static_cast<std::int64_t>(i), step);
      }
    }
    const auto residuals = harness.state<double>("residual/weight");
    EXPECT_GT(norm(residuals), 1);
    const Tensor sum = Tensor::from<double>(rank.context, residuals, {rows * columns});
    rank.communicator
        .all_reduce({sum.data(), sum.count(), sum.dtype()}, comm::ReduceOp::sum,
                    rank.context.compute_stream())
        .wait();
    const auto sums = sum.to_vector<double>();
    for (std::size_t i = 0; i < total.size(); ++i) ASSERT_NEAR(total[i], -sums[i], 1e-10);
  });
}

// The basis of one step is where the next begins, so that a gradient that stays is seen better.
TEST(PowerSgd, ApproximationsOfASteadyGradientImprove) {
  run_ranks(2, [&](Rank rank) {
    HookHarness harness(rank, power_sgd(4), rows, columns, 1 << 20, DType::float64);
    const auto gradient = [](std::int64_t i) {
      const std::int64_t r = i / columns, c = i % columns;
      double value = 0;
      for (int k = 1; k <= 12; ++k) value += std::pow(0.6, k) * noise(k, r) * noise(k, 1000 + c);
      return value;
    };
    std::vector<double> mean(rows * columns);
    double first = 0, error = 0;
    for (int step = 1; step <= 20; ++step) {
      harness.step(gradient, step);
      const auto found = harness.weight();
      std::vector<double> difference(mean.size());
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i] += found[i];
        difference[i] = mean[i] / (2 * step) - gradient(static_cast<std::int64_t>(i));
      }
      error = norm(difference);
      if (step == 1) first = error;
    }
    EXPECT_LT(error, first / 5);
  });
}

TEST(PowerSgd, BeforeItsStartIsThePlainSum) {
  run_ranks(2, [&](Rank rank) {
    HookHarness harness(rank, power_sgd(2, 3), rows, columns);
    for (int step = 1; step <= 3; ++step) {
      harness.step([&](std::int64_t i) { return static_cast<double>(i % 7); }, step);
      EXPECT_EQ(harness.bytes < 4 * rows * columns, step == 3);
      if (step < 3) {
        EXPECT_EQ(harness.weight()[12], 10);
      }
    }
  });
}

// Borders of buckets cut rows; those travel as they are, with the rest compressed.
TEST(PowerSgd, ServesBucketsThatCutAWeight) {
  run_ranks(3, [&](Rank rank) {
    HookHarness harness(rank, power_sgd(1), 64, 50, 2048 * 3, DType::float32);
    EXPECT_GT(harness.plan().buckets.size(), 2u);
    const auto gradient = [](std::int64_t i) {
      return std::sin(static_cast<double>(i / 50)) * std::cos(static_cast<double>(i % 50));
    };
    harness.step(gradient);
    const auto found = harness.weight();
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], 3 * gradient(static_cast<std::int64_t>(i)), 1e-5) << i;
    EXPECT_LT(harness.bytes, 64 * 50 * 4 / 3);
  });
}

TEST(PowerSgd, AValueThatIsNotFiniteReachesEveryRankAndLeavesNoTrace) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    run_ranks(3, [&](Rank rank) {
      HookHarness harness(rank, power_sgd(2, 1, /*may_skip=*/true), rows, columns);
      const auto gradient = [&](std::int64_t i) { return noise(rank.communicator.rank(), i); };
      harness.step(gradient, 1);
      const bool is_culprit = rank.communicator.rank() == 2;
      harness.step([&](std::int64_t i) { return is_culprit && i == 77 ? bad : gradient(i); }, 2, 1,
                   /*used=*/false);
      const auto spoilt = harness.weight();
      EXPECT_TRUE(
          std::any_of(spoilt.begin(), spoilt.end(), [](double v) { return !std::isfinite(v); }));
      harness.step(gradient, 3);
      const auto found = harness.weight();

      HookHarness clean(rank, power_sgd(2), rows, columns);
      clean.step(gradient, 1);
      clean.step(gradient, 2);
      EXPECT_EQ(found, clean.weight());
    });
}

TEST(PowerSgd, ZeroGradientsAreFineAndNoDeadEnd) {
  run_ranks(2, [&](Rank rank) {
    HookHarness harness(rank, power_sgd(1), rows, columns);
    harness.step([](std::int64_t) { return 0.0; }, 1);
    EXPECT_THAT(harness.weight(), Each(0.0));
    harness.step([](std::int64_t i) { return static_cast<double>(i / columns); }, 2);
    EXPECT_NEAR(harness.weight()[5 * columns + 3], 10, 1e-4);
  });
}

}  // namespace
}  // namespace lockstep::train

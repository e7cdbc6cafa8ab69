#include "framework/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace lockstep::optim {
namespace {

TEST(Schedule, ConstantIsOne) {
  const Schedule schedule;
  for (const std::int64_t step : {0, 1, 1000000}) EXPECT_EQ(schedule.factor(step), 1.0);
}

TEST(Schedule, WarmupRisesLinearlyToOne) {
  const Schedule schedule{.shape = Constant{}, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(schedule.factor(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.factor(1), 0.5);
  EXPECT_DOUBLE_EQ(schedule.factor(2), 0.75);
  EXPECT_DOUBLE_EQ(schedule.factor(3), 1.0);
  EXPECT_DOUBLE_EQ(schedule.factor(4), 1.0);
}

TEST(Schedule, StepFallsAtMultiples) {
  const Schedule schedule{.shape = Step{.every = 10, .factor = 0.5}, .warmup_steps = 2};
  EXPECT_DOUBLE_EQ(schedule.factor(0), 0.5);  // warming up
  EXPECT_DOUBLE_EQ(schedule.factor(2), 1.0);
  EXPECT_DOUBLE_EQ(schedule.factor(9), 1.0);
  EXPECT_DOUBLE_EQ(schedule.factor(10), 0.5);
  EXPECT_DOUBLE_EQ(schedule.factor(19), 0.5);
  EXPECT_DOUBLE_EQ(schedule.factor(20), 0.25);
  EXPECT_DOUBLE_EQ(schedule.factor(35), 0.125);
}

TEST(Schedule, CosineFallsFromTheEndOfWarmupToTheMinimum) {
  const Schedule schedule{.shape = Cosine{.updates = 110, .minimum = 0.1}, .warmup_steps = 10};
  EXPECT_DOUBLE_EQ(schedule.factor(4), 0.5);
  EXPECT_DOUBLE_EQ(schedule.factor(9), 1.0);
  EXPECT_DOUBLE_EQ(schedule.factor(10), 1.0);
  EXPECT_NEAR(schedule.factor(35), 0.1 + 0.9 * 0.5 * (1 + std::numbers::sqrt2 / 2), 1e-15);
  EXPECT_NEAR(schedule.factor(60), 0.55, 1e-15);
  EXPECT_NEAR(schedule.factor(110), 0.1, 1e-15);
  EXPECT_NEAR(schedule.factor(5000), 0.1, 1e-15);
  for (std::int64_t step = 11; step < 110; ++step) {
    EXPECT_LT(schedule.factor(step), schedule.factor(step - 1)) << step;
  }
}

TEST(Schedule, CosineShorterThanItsWarmupEndsAtTheMinimum) {
  const Schedule schedule{.shape = Cosine{.updates = 3, .minimum = 0.2}, .warmup_steps = 5};
  EXPECT_DOUBLE_EQ(schedule.factor(2), 0.6);
  EXPECT_DOUBLE_EQ(schedule.factor(4), 1.0);
  EXPECT_NEAR(schedule.factor(6), 0.2, 1e-15);
}

}  // namespace
}  // namespace lockstep::optim

#include "framework/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/nn/init.h"
#include "tests/framework/nn/open_module.h"
#include "tests/framework/optim/optimizer_cases.h"

namespace lockstep::optim {
namespace {

using nn::ParameterArena;
using testing::Each;
using testing::ElementsAre;

class OptimizerTest : public testing::Test {
 protected:
  void add(const std::string& name, const Shape& shape, DType dtype) {
    model_.register_parameter(name, Tensor::empty(*context_, shape, dtype), nn::normal(0, 1));
  }

  std::unique_ptr<Context> context_ = device::make_cpu_context();
  nn::OpenModule model_;
};

class TrajectoryTest : public OptimizerTest, public testing::WithParamInterface<Case> {};

INSTANTIATE_TEST_SUITE_P(All, TrajectoryTest, testing::ValuesIn(cases()), name_of_case);

TEST_P(TrajectoryTest, FollowsTheReference) {
  add("w", {reference::count}, DType::float64);
  ParameterArena arena(*context_, model_, {});
  const auto values = arena.segments()[0].parameters.elements<double>();
  const auto gradients = arena.segments()[0].gradients.elements<double>();
  std::ranges::copy(reference::initial, values.begin());
  const auto optimizer = GetParam().make(arena);
  for (std::size_t step = 0; step < reference::steps; ++step) {
    // Four times the gradient, to be scaled back (exactly).
    std::ranges::transform(reference::gradients[step], gradients.begin(),
                           [](double gradient) { return 4 * gradient; });
    optimizer->begin_update(reference::rates[step]);
    optimizer->apply_all({.factor = Tensor::from<double>(*context_, {0.25}, {1})});
    for (std::size_t i = 0; i < reference::count; ++i) {
      const double expected = (*GetParam().trajectory)[step][i];
      // A few roundings in each step; values stay below about 100.
      EXPECT_NEAR(values[i], expected, 1e-13 * std::max(1.0, std::abs(expected)))
          << "step " << step << ", element " << i;
    }
  }
}

TEST_P(TrajectoryTest, SinglePrecisionFollowsTheReference) {
  add("w", {reference::count}, DType::float32);
  ParameterArena arena(*context_, model_, {});
  const auto values = arena.segments()[0].parameters.elements<float>();
  const auto gradients = arena.segments()[0].gradients.elements<float>();
  const auto narrow = [](double value) { return static_cast<float>(value); };
  std::ranges::transform(reference::initial, values.begin(), narrow);
  const auto optimizer = GetParam().make(arena);
  for (std::size_t step = 0; step < reference::steps; ++step) {
    std::ranges::transform(reference::gradients[step], gradients.begin(), narrow);
    optimizer->begin_update(reference::rates[step]);
    optimizer->apply_all();
    for (std::size_t i = 0; i < reference::count; ++i) {
      const double expected = (*GetParam().trajectory)[step][i];
      EXPECT_NEAR(values[i], expected, 2e-6 * std::max(1.0, std::abs(expected)));
    }
  }
}

TEST_P(TrajectoryTest, KeepsAWorkingCopy) {
  add("w", {reference::count}, DType::float32);
  add("wide", {5}, DType::float64);  // has none
  ParameterArena arena(*context_, model_, {});
  arena.keep_working_copy();
  const auto& segment = arena.segments()[0];
  const auto optimizer = GetParam().make(arena);
  for (std::size_t step = 0; step < reference::steps; ++step) {
    std::ranges::transform(reference::gradients[step], segment.gradients.elements<float>().begin(),
                           [](double value) { return static_cast<float>(value); });
    optimizer->begin_update(reference::rates[step]);
    optimizer->apply_all();
    const auto values = segment.parameters.elements<float>();
    const auto working = segment.working.elements<bfloat16>();
    for (std::size_t i = 0; i < reference::count; ++i) EXPECT_EQ(working[i], bfloat16(values[i]));
  }
}

std::vector<std::string> state_names(const Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const auto& state : optimizer.state()) names.push_back(state.name);
  return names;
}

TEST_F(OptimizerTest, StateHasTheArenasLayoutAndStartsAtZero) {
  add("a", {5}, DType::float32);
  add("b", {3}, DType::float64);
  ParameterArena arena(*context_, model_, {});
  EXPECT_TRUE(make_sgd(arena, {})->state().empty());
  EXPECT_THAT(state_names(*make_sgd(arena, {.momentum = 0.5})), ElementsAre("momentum"));
  const auto adam = make_adam(arena, {});
  EXPECT_THAT(state_names(*adam), ElementsAre("first_moment", "second_moment"));
  for (const auto& state : adam->state()) {
    ASSERT_EQ(state.segments.size(), 2u);
    EXPECT_EQ(state.segments[0].shape(), arena.segments()[0].parameters.shape());
    EXPECT_THAT(state.segments[0].elements<float>(), Each(0.0f));
    EXPECT_THAT(state.segments[1].elements<double>(), Each(0.0));
  }
}

TEST_F(OptimizerTest, NamesAreThoseOfTheConfiguration) {
  add("a", {5}, DType::float32);
  ParameterArena arena(*context_, model_, {});
  EXPECT_EQ(make_sgd(arena, {})->name(), "sgd");
  EXPECT_EQ(make_adam(arena, {})->name(), "adam");
  EXPECT_EQ(make_adam(arena, {.decoupled = true})->name(), "adamw");
}

TEST_F(OptimizerTest, BadRangesAreErrors) {
  add("a", {5}, DType::float32);
  ParameterArena arena(*context_, model_, {});
  const auto optimizer = make_sgd(arena, {});
  EXPECT_THROW(optimizer->apply(0, 0, 5), UsageError);  // before begin_update
  optimizer->begin_update(0.1);
  EXPECT_THROW(optimizer->apply(1, 0, 5), UsageError);
  EXPECT_THROW(optimizer->apply(0, -1, 5), UsageError);
  EXPECT_THROW(optimizer->apply(0, 4, 3), UsageError);
  EXPECT_THROW(optimizer->apply(0, 0, 33), UsageError);
  EXPECT_NO_THROW(optimizer->apply(0, 0, 32));
  EXPECT_NO_THROW(optimizer->apply(0, 32, 32));
}

TEST_F(OptimizerTest, BadShardsAreErrors) {
  add("a", {5}, DType::float32);
  ParameterArena arena(*context_, model_, {});
  const std::int64_t count = arena.segments()[0].parameters.count();
  EXPECT_THROW(make_sgd(arena, {}, {}), UsageError);
  EXPECT_THROW(make_sgd(arena, {}, {{{0, count + 1}}}), UsageError);
  EXPECT_THROW(make_sgd(arena, {}, {{{0, 4}, {3, 5}}}), UsageError);
  EXPECT_THROW(make_sgd(arena, {}, {{{-1, 4}}}), UsageError);
  EXPECT_THROW(make_sgd(arena, {}, {{{4, 2}}}), UsageError);
  EXPECT_NO_THROW(make_sgd(arena, {}, {{{0, 2}, {2, 2}, {5, count}}}));
}

TEST_F(OptimizerTest, BadOptionsAreErrors) {
  add("a", {5}, DType::float32);
  ParameterArena arena(*context_, model_, {});
  EXPECT_THROW(make_sgd(arena, {.momentum = 1}), ConfigError);
  EXPECT_THROW(make_sgd(arena, {.momentum = -0.1}), ConfigError);
  EXPECT_THROW(make_sgd(arena, {.weight_decay = -1}), ConfigError);
  EXPECT_THROW(make_sgd(arena, {.nesterov = true}), ConfigError);
  EXPECT_THROW(make_adam(arena, {.beta1 = 1}), ConfigError);
  EXPECT_THROW(make_adam(arena, {.beta2 = -0.5}), ConfigError);
  EXPECT_THROW(make_adam(arena, {.epsilon = 0}), ConfigError);
  EXPECT_THROW(make_adam(arena, {.weight_decay = std::nan("")}), ConfigError);
}

}  // namespace
}  // namespace lockstep::optim

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "framework/autograd/no_grad.h"
#include "framework/base/error.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/nn/dropout.h"
#include "framework/nn/init.h"
#include "framework/nn/linear.h"
#include "framework/nn/parameter_arena.h"
#include "framework/nn/sequential.h"
#include "framework/ops/ops.h"
#include "tests/framework/nn/open_module.h"

namespace lockstep::nn {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

Variable sum(const Variable& y) {
  return ops::sum(y);
}

class BackwardOrderTest : public testing::Test {
 protected:
  Tensor full(double value, const Shape& shape) {
    const Tensor tensor = Tensor::empty(*context_, shape);
    kernels::kernels_for(*context_).fill(value, tensor);
    return tensor;
  }
  Variable parameter(OpenModule& module, const std::string& name) {
    return module.register_parameter(name, full(1, {1}), constant(1));
  }

  std::unique_ptr<Context> context_ = device::make_cpu_context();
  Variable x_{full(0, {2, 3})};
};

TEST_F(BackwardOrderTest, LastLayerComesFirst) {
  Sequential model{std::make_shared<Linear>(*context_, 3, 4), std::make_shared<Dropout>(0.5),
                   std::make_shared<Linear>(*context_, 4, 4),
                   std::make_shared<Linear>(*context_, 4, 2)};
  model.initialize(1);
  const std::vector<std::size_t> order = backward_order(model, x_, sum);
  ASSERT_EQ(order.size(), 6u);
  const auto layers = std::vector(order.begin(), order.end());
  EXPECT_THAT(std::vector(layers.begin(), layers.begin() + 2), UnorderedElementsAre(4, 5));
  EXPECT_THAT(std::vector(layers.begin() + 2, layers.begin() + 4), UnorderedElementsAre(2, 3));
  EXPECT_THAT(std::vector(layers.begin() + 4, layers.end()), UnorderedElementsAre(0, 1));
}

TEST_F(BackwardOrderTest, FollowsUseNotRegistration) {
  OpenModule model;
  const Variable a = parameter(model, "a");
  const Variable b = parameter(model, "b");
  const Variable c = parameter(model, "c");
  model.set_formula([=](const Variable& x) { return ((x * b) * c) * a; });
  EXPECT_THAT(backward_order(model, x_, sum), ElementsAre(0, 2, 1));
}

TEST_F(BackwardOrderTest, TiedParameterComesAfterItsLastContribution) {
  OpenModule model;
  const Variable a = parameter(model, "a");
  const Variable b = parameter(model, "b");
  const Variable c = parameter(model, "c");
  model.set_formula([=](const Variable& x) { return (((x * c) * a) * b) * a; });
  EXPECT_THAT(backward_order(model, x_, sum), ElementsAre(1, 0, 2));
}

TEST_F(BackwardOrderTest, UnreachedAndFrozenParametersAreAbsent) {
  OpenModule model;
  const Variable a = parameter(model, "a");
  parameter(model, "unused");
  Variable frozen = parameter(model, "frozen");
  const Variable b = parameter(model, "b");
  frozen.set_requires_grad(false);
  const Variable outside(full(2, {1}), true);  // a leaf of the loss alone
  model.set_formula([=](const Variable& x) { return ((x * a) * frozen) * b; });
  EXPECT_THAT(backward_order(model, x_, [&](const Variable& y) { return sum(y * outside); }),
              ElementsAre(3, 0));
}

TEST_F(BackwardOrderTest, GradientsStayAsTheyWere) {
  Linear model(*context_, 3, 2);
  model.initialize(1);
  backward_order(model, x_, sum);
  EXPECT_FALSE(model.weight().grad().defined());

  ParameterArena arena(*context_, model, {});
  const auto gradients = arena.segments()[0].gradients.elements<float>();
  std::ranges::fill(gradients, 7.0f);
  backward_order(model, x_, sum);
  EXPECT_THAT(gradients, Each(7.0f));
  EXPECT_EQ(model.weight().grad().data(), gradients.data());
}

// Everything that a forward may look at or change.
class StatefulTest : public BackwardOrderTest {
 protected:
  StatefulTest() {
    weight_ = parameter(*evaluating_, "w");
    statistic_ = evaluating_->register_buffer("statistic", full(3, {2}));
    root_.register_module("evaluating", evaluating_);
    root_.train();
    evaluating_->train(false);
    context_->random() = {.seed = 4, .step = 17, .first_row = 96};
    root_.set_formula([this](const Variable& x) {
      seen_ = context_->random();
      seen_training_ = evaluating_->training();
      kernels::kernels_for(*context_).fill(-1, statistic_);
      return x * weight_;
    });
  }

  void expect_untouched() {
    EXPECT_EQ(context_->random().seed, 4u);
    EXPECT_EQ(context_->random().step, 17u);
    EXPECT_EQ(context_->random().first_row, 96);
    EXPECT_TRUE(root_.training());
    EXPECT_FALSE(evaluating_->training());
    EXPECT_THAT(statistic_.elements<float>(), Each(3.0f));
    EXPECT_TRUE(weight_.requires_grad());
    EXPECT_FALSE(weight_.grad().defined());
  }

  std::shared_ptr<OpenModule> evaluating_ = std::make_shared<OpenModule>();
  OpenModule root_;
  Variable weight_;
  Tensor statistic_;
  base::RandomState seen_;
  bool seen_training_ = false;
};

TEST_F(StatefulTest, RunsInTrainingModeAtAStepOfItsOwnAndPutsAllBack) {
  EXPECT_THAT(backward_order(root_, x_, sum), ElementsAre(0));
  EXPECT_EQ(seen_.step, dry_run_step);
  EXPECT_TRUE(seen_training_);
  expect_untouched();
}

TEST_F(StatefulTest, PutsAllBackWhenTheLossThrows) {
  EXPECT_THROW(backward_order(root_, x_,
                              [](const Variable&) -> Variable { throw std::runtime_error("no"); }),
               std::runtime_error);
  expect_untouched();
  EXPECT_THROW(backward_order(root_, x_, [](const Variable& y) { return y; }), UsageError);
  expect_untouched();
}

TEST_F(StatefulTest, RecordsEvenWhereRecordingIsOff) {
  const autograd::NoGrad no_grad(*context_);
  EXPECT_THAT(backward_order(root_, x_, sum), ElementsAre(0));
  EXPECT_FALSE(context_->recording());
}

}  // namespace
}  // namespace lockstep::nn

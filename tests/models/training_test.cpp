// Everything below the trainer at work: model, arena, backward, optimizer, schedule, on one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "framework/autograd/engine.h"
#include "framework/autograd/no_grad.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/nn/parameter_arena.h"
#include "framework/ops/ops.h"
#include "framework/optim/optimizer.h"
#include "framework/optim/schedule.h"
#include "models/registry.h"

namespace lockstep::models {
namespace {

class TrainingTest : public testing::Test {
 protected:
  std::unique_ptr<Context> context_ = device::make_cpu_context();
};

TEST_F(TrainingTest, LearnsExclusiveOr) {
  const auto model = make_model(*context_, "mlp",
                                {{"hidden", std::vector<std::int64_t>{16}}, {"activation", "tanh"}},
                                {.features = {2}, .classes = 2}, 3);
  const Variable x(Tensor::from<float>(*context_, {0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}));
  const Tensor targets = Tensor::from<std::int64_t>(*context_, {0, 1, 1, 0}, {4});
  nn::ParameterArena arena(*context_, *model, nn::backward_order(*model, x, [&](const Variable& y) {
    return ops::cross_entropy(y, targets).loss_sum;
  }));
  const auto optimizer = optim::make_adam(arena, {});
  double first_loss = 0;
  double loss = 0;
  for (int step = 0; step < 300; ++step) {
    const auto result = ops::cross_entropy((*model)(x), targets, 0.25);
    autograd::backward(result.loss_sum);
    optimizer->begin_update(0.03);
    optimizer->apply_all();
    loss = result.sum() / 4;
    if (step == 0) first_loss = loss;
  }
  EXPECT_GT(first_loss, 0.3);
  EXPECT_LT(loss, 0.01);
  const autograd::NoGrad no_grad(*context_);
  const Tensor correct = Tensor::empty(*context_, {1}, DType::float64);
  kernels::kernels_for(*context_).count_correct((*model)(x).value(), targets, -100, correct, false);
  EXPECT_EQ(correct.item<double>(), 4);
}

class TrainingWithGelu : public TrainingTest, public testing::WithParamInterface<std::string> {};

INSTANTIATE_TEST_SUITE_P(Forms, TrainingWithGelu, testing::Values("gelu", "gelu_tanh"),
                         [](const auto& test) { return test.param; });

TEST_P(TrainingWithGelu, FitsACurveInDoublePrecisionWithMomentumAndASchedule) {
  const auto model = make_model(
      *context_, "mlp", {{"hidden", std::vector<std::int64_t>{24, 24}}, {"activation", GetParam()}},
      {.features = {1}, .classes = 1, .dtype = DType::float64}, 1);
  std::vector<double> points(64);
  std::vector<double> values(64);
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i] = -1 + static_cast<double>(i) / 31.5;
    values[i] = std::sin(std::numbers::pi * points[i]);
  }
  const Variable x(Tensor::from(*context_, std::span<const double>(points), {64, 1}));
  const Tensor y = Tensor::from(*context_, std::span<const double>(values), {64, 1});
  nn::ParameterArena arena(*context_, *model, {});
  const auto optimizer = optim::make_sgd(arena, {.momentum = 0.9, .nesterov = true});
  const optim::Schedule schedule{.shape = optim::Cosine{.updates = 800}, .warmup_steps = 20};
  double first_loss = 0;
  double loss = 0;
  for (std::int64_t step = 0; step < 800; ++step) {
    const Variable error = ops::mse((*model)(x), y);
    autograd::backward(error);
    optimizer->begin_update(0.1 * schedule.factor(step));
    optimizer->apply_all();
    loss = error.value().item<double>();
    if (step == 0) first_loss = loss;
  }
  EXPECT_GT(first_loss, 0.2);
  EXPECT_LT(loss, 1e-3);
}

// A classifier on random data, with everything that makes temporary tensors.
class Classifier {
 public:
  explicit Classifier(int threads) : context_(device::make_cpu_context(threads)) {}

  void step(std::int64_t rows) {
    const base::RandomStream stream(1, "data", context_->random().step);
    std::vector<float> features(static_cast<std::size_t>(rows * 12));
    std::vector<std::int64_t> labels(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < features.size(); ++i) features[i] = stream.uniform(i) - 0.5f;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<std::int64_t>(stream.below(5, features.size() + i));
    }
    const Variable x(Tensor::from(*context_, std::span<const float>(features), {rows, 3, 4}));
    const Tensor targets = Tensor::from(*context_, std::span<const std::int64_t>(labels), {rows});
    const auto loss = ops::cross_entropy((*model_)(x), targets, 1.0 / static_cast<double>(rows));
    autograd::backward(loss.loss_sum);
    optimizer_->begin_update(0.05);
    optimizer_->apply_all();
    ++context_->random().step;
  }

  device::AllocatorStatistics memory() const { return context_->allocator().statistics(); }
  std::span<const float> parameters() const {
    return arena_.segments()[0].parameters.elements<float>();
  }

 private:
  std::unique_ptr<Context> context_;
  std::shared_ptr<nn::Module> model_ = make_model(
      *context_, "mlp", {{"hidden", std::vector<std::int64_t>{37, 21}}, {"dropout", 0.2}},
      {.features = {3, 4}, .classes = 5}, 1);
  nn::ParameterArena arena_{*context_, *model_, {}};
  std::unique_ptr<optim::Optimizer> optimizer_ = optim::make_sgd(arena_, {.momentum = 0.9});
};

TEST(SteadyStep, AsksTheSourceOfMemoryForNothing) {
  Classifier classifier(1);
  classifier.step(50);
  classifier.step(50);
  const auto before = classifier.memory();
  for (int i = 0; i < 20; ++i) classifier.step(50);
  const auto after = classifier.memory();
  EXPECT_GT(after.requests, before.requests);
  EXPECT_EQ(after.source_requests, before.source_requests);
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
}

TEST(SteadyStep, ThreadsDoNotChangeABit) {
  Classifier one(1);
  Classifier three(3);
  for (int i = 0; i < 4; ++i) {
    one.step(301);
    three.step(301);
  }
  EXPECT_EQ(std::memcmp(one.parameters().data(), three.parameters().data(),
                        one.parameters().size_bytes()),
            0);
}

}  // namespace
}  // namespace lockstep::models

#include <cmath>

#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

class Loss : public OpsTest {
 protected:
  Tensor targets(std::vector<std::int64_t> rows) {
    const Shape shape{static_cast<std::int64_t>(rows.size())};
    return Tensor::from(context, std::span<const std::int64_t>(rows), shape);
  }
};

TEST_F(Loss, GradientOfCrossEntropy) {
  for (int round = 0; round < 30; ++round) {
    const std::int64_t rows = random.integer(1, 5), classes = random.integer(1, 5);
    std::vector<std::int64_t> at;
    for (std::int64_t row = 0; row < rows; ++row) at.push_back(random.integer(-1, classes - 1));
    const CrossEntropyOptions options{.ignore_index = -1,
                                      .label_smoothing = round % 2 == 0 ? 0 : 0.2};
    const Tensor target = targets(at);
    expect_gradients(
        [=](const auto& in) { return cross_entropy(in[0], target, 0.3, options).loss_sum; },
        {random.uniform({rows, classes})});
  }
}

TEST_F(Loss, CrossEntropyKeepsSumAndCountApart) {
  const Variable logits = leaf({0, 0, 0, 0, 0, 0}, {3, 2});
  const CrossEntropy loss = cross_entropy(logits, targets({0, -100, 1}), 0.25);
  EXPECT_EQ(loss.count(), 2);
  EXPECT_NEAR(loss.sum(), 2 * std::log(2), 1e-15);
  EXPECT_NEAR(loss.loss_sum.value().item<double>(), 0.5 * std::log(2), 1e-15);
  autograd::BackwardOptions options;
  options.seed_gradient = Tensor::from<double>(context, {8}, {1});
  autograd::backward(loss.loss_sum, options);
  EXPECT_THAT(values(logits.grad()), testing::ElementsAre(-1, 1, 0, 0, 1, -1));
}

TEST_F(Loss, CrossEntropyOfNoRows) {
  const Variable logits = leaf({}, {0, 3});
  const CrossEntropy loss = cross_entropy(logits, targets({}), 0.25);
  EXPECT_EQ(loss.count(), 0);
  EXPECT_EQ(loss.sum(), 0);
  autograd::backward(loss.loss_sum);
  EXPECT_EQ(logits.grad().count(), 0);
}

TEST_F(Loss, CrossEntropyWithoutRecordingGivesTheSameLoss) {
  const Variable logits(random.uniform({4, 3}), true);
  const Tensor target = targets({0, 2, 1, 1});
  const double recorded = cross_entropy(logits, target).sum();
  const autograd::NoGrad no_grad(context);
  const CrossEntropy loss = cross_entropy(logits, target);
  EXPECT_EQ(loss.sum(), recorded);
  EXPECT_FALSE(loss.loss_sum.requires_grad());
}

TEST_F(Loss, CrossEntropyMistakes) {
  const Variable logits(random.uniform({2, 3}));
  expect_usage_error(
      [&] {
        cross_entropy(logits, targets({0, 1, 2}));
      },
      {"cross_entropy", "int64 [3]", "expected int64 [2]", "[2, 3]"});
  expect_usage_error([&] { cross_entropy(logits, Tensor::empty(context, {2}, DType::int32)); },
                     {"cross_entropy", "int32 [2]"});
  expect_usage_error([&] { cross_entropy(logits, Tensor()); }, {"cross_entropy", "undefined"});
  expect_usage_error(
      [&] {
        cross_entropy(constant({2}), targets({0, 1}));
      },
      {"cross_entropy", "[2]", "[rows, classes]"});
  expect_usage_error(
      [&] {
        cross_entropy(logits, targets({0, 1}), 1, {.label_smoothing = 1});
      },
      {"cross_entropy", "label_smoothing is 1"});
  try {
    cross_entropy(logits, targets({0, 3}));
    ADD_FAILURE() << "a target outside the classes was accepted";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("row 1"));
    EXPECT_THAT(error.what(), testing::HasSubstr("3"));
  }
}

TEST_F(Loss, GradientOfSquaredError) {
  for (int round = 0; round < 20; ++round) {
    const Shape shape = random.shape(0, 3);
    const Tensor target = random.uniform(shape);
    expect_gradients([=](const auto& in) { return squared_error(in[0], target, -0.7); },
                     {random.uniform(shape)});
    expect_gradients([=](const auto& in) { return mse(in[0], target); }, {random.uniform(shape)});
  }
}

TEST_F(Loss, SquaredErrorMistakes) {
  expect_usage_error(
      [&] {
        mse(constant({0, 3}), constant({0, 3}).value());
      },
      {"mse", "[0, 3]", "no elements"});
  expect_usage_error(
      [&] {
        squared_error(constant({2, 3}), constant({2}).value());
      },
      {"squared_error", "prediction has shape [2, 3]", "target has shape [2]"});
  expect_usage_error([&] { mse(constant({2}), constant({2}, DType::float32).value()); },
                     {"squared_error", "float64", "float32"});
}

}  // namespace
}  // namespace lockstep::ops

#include <limits>

#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

class BatchNorm : public OpsTest {
 protected:
  Tensor filled(std::int64_t features, double value) {
    const Tensor tensor = Tensor::empty(context, {features}, DType::float64);
    kernels::kernels_for(context).fill(value, tensor);
    return tensor;
  }
};

TEST_F(BatchNorm, Gradients) {
  for (int round = 0; round < 20; ++round) {
    const std::int64_t rows = random.integer(2, 6), features = random.integer(1, 4);
    const Tensor mean = random.uniform({features}), variance = random.uniform({features}, 0.5, 2);
    for (const bool training : {true, false}) {
      // Differences of a deviation near zero would be wide of the mark: `epsilon` keeps it away.
      const BatchNormOptions options{.training = training, .momentum = 0, .epsilon = 0.1};
      expect_gradients(
          [&](const auto& in) { return batch_norm(in[0], in[1], in[2], mean, variance, options); },
          {random.uniform({rows, features}), random.uniform({features}),
           random.uniform({features})});
    }
  }
}

TEST_F(BatchNorm, GradientWhenOperandsAreTheSame) {
  const Tensor mean = filled(3, 0), variance = filled(3, 1);
  expect_gradients(
      [&](const auto& in) {
        return batch_norm(in[0], in[1], in[1], mean, variance, {.momentum = 0, .epsilon = 0.1});
      },
      {random.uniform({4, 3}), random.uniform({3})});
}

TEST_F(BatchNorm, FrozenOperandsGetNoGradient) {
  const Tensor values_of[] = {random.uniform({5, 3}), random.uniform({3}), random.uniform({3})};
  std::vector<std::vector<double>> expected;
  for (unsigned frozen = 0; frozen < 7; ++frozen) {
    std::vector<Variable> in;
    for (unsigned i = 0; i < 3; ++i) in.emplace_back(values_of[i], (frozen >> i & 1) == 0);
    const Variable y = batch_norm(in[0], in[1], in[2], filled(3, 0), filled(3, 1));
    autograd::backward(sum(y * y));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(in[i].grad().defined(), in[i].requires_grad());
      if (frozen == 0) expected.push_back(values(in[i].grad()));
      if (in[i].requires_grad()) {
        EXPECT_EQ(values(in[i].grad()), expected[i]);
      }
    }
  }
}

TEST_F(BatchNorm, RunningStatisticsMoveInTrainingOnly) {
  const Tensor mean = filled(1, 10), variance = filled(1, 4);
  const Variable x = leaf({1, 3}, {2, 1}), weight = leaf({2}, {1}), bias = leaf({5}, {1});
  const Variable y = batch_norm(x, weight, bias, mean, variance, {.training = false, .epsilon = 0});
  EXPECT_THAT(values(y.value()),
              testing::ElementsAre(2 * (1 - 10) / 2.0 + 5, 2 * (3 - 10) / 2.0 + 5));
  EXPECT_EQ(mean.item<double>(), 10);
  batch_norm(x, weight, bias, mean, variance);
  EXPECT_DOUBLE_EQ(mean.item<double>(), 0.9 * 10 + 0.1 * 2);
  EXPECT_DOUBLE_EQ(variance.item<double>(), 0.9 * 4 + 0.1 * 2);  // unbiased: (1 + 1) / (2 - 1)
}

TEST_F(BatchNorm, NoRowsLeaveStatisticsAndGradientsUntouched) {
  const Tensor mean = filled(2, 3), variance = filled(2, 7);
  const Variable weight = leaf({1, 2}, {2}), bias = leaf({1, 2}, {2});
  const Variable x = leaf({}, {0, 2});
  const Variable y = batch_norm(x, weight, bias, mean, variance);
  EXPECT_EQ(y.shape(), Shape({0, 2}));
  EXPECT_THAT(values(mean), testing::Each(3.0));
  EXPECT_THAT(values(variance), testing::Each(7.0));
  autograd::backward(sum(y));
  EXPECT_THAT(values(weight.grad()), testing::Each(0.0));
  EXPECT_THAT(values(bias.grad()), testing::Each(0.0));
}

TEST_F(BatchNorm, MistakesNameTheOperation) {
  const Tensor mean = filled(3, 0), variance = filled(3, 1);
  const auto apply = [&](const Variable& x, const Variable& weight, const Variable& bias,
                         const BatchNormOptions& options = {}) {
    batch_norm(x, weight, bias, mean, variance, options, "norm.1");
  };
  const Variable vector = constant({3});
  expect_usage_error(
      [&] {
        apply(constant({1, 3}), vector, vector);
      },
      {"batch_norm", "norm.1", "1 row", "at least 2"});
  EXPECT_NO_THROW(apply(constant({1, 3}), vector, vector, {.training = false}));
  expect_usage_error(
      [&] {
        apply(constant({2, 3, 1}), vector, vector);
      },
      {"batch_norm", "x has shape [2, 3, 1]", "[rows, features]"});
  expect_usage_error(
      [&] {
        apply(constant({4, 2}), vector, vector);
      },
      {"weight has shape [3]", "expected [2]"});
  expect_usage_error(
      [&] {
        apply(constant({4, 3}, DType::float32), vector, vector);
      },
      {"float32", "float64"});
}

}  // namespace
}  // namespace lockstep::ops

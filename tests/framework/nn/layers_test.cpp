#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "framework/base/error.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/nn/activation.h"
#include "framework/nn/batch_norm.h"
#include "framework/nn/dropout.h"
#include "framework/nn/embedding.h"
#include "framework/nn/flatten.h"
#include "framework/nn/linear.h"
#include "framework/nn/sequential.h"

namespace lockstep::nn {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

class LayersTest : public testing::Test {
 protected:
  Variable input(std::initializer_list<double> values, const Shape& shape) {
    return Variable(Tensor::from(*context_, values, shape));
  }
  std::vector<double> values_of(const Variable& variable) {
    const auto values = variable.value().elements<double>();
    return {values.begin(), values.end()};
  }

  std::unique_ptr<Context> context_ = device::make_cpu_context();
};

TEST_F(LayersTest, LinearIsXTimesWeightTransposedPlusBias) {
  Linear linear(*context_, 2, 3, {.dtype = DType::float64});
  EXPECT_EQ(linear.weight().shape(), Shape({3, 2}));
  const std::vector<double> weight = {1, 2, 3, 4, 5, 6};
  std::ranges::copy(weight, linear.weight().value().elements<double>().begin());
  const std::vector<double> bias = {10, 20, 30};
  std::ranges::copy(bias, linear.bias().value().elements<double>().begin());
  EXPECT_THAT(values_of(linear(input({1, -1, 2, 0}, {2, 2}))), ElementsAre(9, 19, 29, 12, 26, 40));
  EXPECT_EQ(linear(input({1, -1, 2, 0}, {1, 2, 1, 2})).shape(), Shape({1, 2, 1, 3}));
}

TEST_F(LayersTest, LinearWithoutBiasHasOneParameter) {
  Linear linear(*context_, 4, 3, {.bias = false});
  EXPECT_EQ(linear.named_parameters().size(), 1u);
  EXPECT_FALSE(linear.bias().defined());
  EXPECT_THROW(Linear(*context_, 0, 3), UsageError);
  EXPECT_THROW(Linear(*context_, 3, -1), UsageError);
}

TEST_F(LayersTest, EmbeddingGivesEachIndexItsRow) {
  Embedding embedding(*context_, 3, 2, {.dtype = DType::float64});
  EXPECT_EQ(embedding.named_parameters().at(0).name, "weight");
  EXPECT_EQ(embedding.weight().shape(), Shape({3, 2}));
  const std::vector<double> weight = {1, 2, 3, 4, 5, 6};
  std::ranges::copy(weight, embedding.weight().value().elements<double>().begin());
  const Variable indices(Tensor::from<std::int64_t>(*context_, {2, 0}, {2, 1}));
  EXPECT_EQ(embedding(indices).shape(), Shape({2, 1, 2}));
  EXPECT_THAT(values_of(embedding(indices)), ElementsAre(5, 6, 1, 2));
  EXPECT_THROW(embedding(input({0, 1}, {2})), UsageError);
  EXPECT_THROW(Embedding(*context_, 0, 3), UsageError);
  EXPECT_THROW(Embedding(*context_, 3, -1), UsageError);
}

// A fused activation is the same function as the module behind a plain layer.
template <class ActivationModule>
void expect_same_as_fused(Context& context, Activation activation, const Variable& x) {
  Linear fused(context, 3, 5, {.activation = activation, .dtype = DType::float64});
  fused.initialize(3);
  const auto plain =
      std::make_shared<Linear>(context, 3, 5, LinearOptions{.dtype = DType::float64});
  plain->initialize(3);
  kernels::kernels_for(context).copy(fused.weight().value(), plain->weight().value());
  Sequential separate{plain, std::make_shared<ActivationModule>()};
  EXPECT_THAT(separate(x).value().elements<double>(),
              Pointwise(DoubleNear(1e-14), fused(x).value().elements<double>()));
}

TEST_F(LayersTest, FusedActivationsAreTheModules) {
  const Variable x = input({0.5, -2, 3, 1, -1, 0.25}, {2, 3});
  expect_same_as_fused<Relu>(*context_, Activation::relu, x);
  expect_same_as_fused<Gelu>(*context_, Activation::gelu, x);
  expect_same_as_fused<GeluTanh>(*context_, Activation::gelu_tanh, x);
  expect_same_as_fused<Tanh>(*context_, Activation::tanh, x);
  expect_same_as_fused<Sigmoid>(*context_, Activation::sigmoid, x);
}

TEST_F(LayersTest, ActivationModulesAtKnownPoints) {
  const Variable x = input({-1, 0, 2}, {3});
  EXPECT_THAT(values_of(Relu()(x)), ElementsAre(0, 0, 2));
  EXPECT_NEAR(values_of(Gelu()(x))[2], 2 * 0.5 * std::erfc(-std::sqrt(2.0)), 1e-12);
  EXPECT_NEAR(values_of(GeluTanh()(x))[2],
              2 * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (2 + 0.044715 * 8))), 1e-12);
  EXPECT_NEAR(values_of(Tanh()(x))[0], std::tanh(-1.0), 1e-12);
  EXPECT_NEAR(values_of(Sigmoid()(x))[1], 0.5, 1e-12);
}

TEST_F(LayersTest, FlattenKeepsTheFirstAxis) {
  Flatten flatten;
  EXPECT_EQ(flatten(input({1, 2, 3, 4, 5, 6}, {1, 2, 3})).shape(), Shape({1, 6}));
  EXPECT_EQ(flatten(input({1, 2, 3, 4, 5, 6}, {3, 2, 1, 1})).shape(), Shape({3, 2}));
  EXPECT_EQ(flatten(input({1, 2, 3}, {3})).shape(), Shape({3, 1}));
  EXPECT_EQ(flatten(input({}, {0, 2, 3})).shape(), Shape({0, 6}));
  EXPECT_THROW(flatten(input({1}, {})), UsageError);
}

TEST_F(LayersTest, SequentialAppliesInOrderAndIsTheIdentityWhenEmpty) {
  const Variable x = input({-2, 1}, {2});
  Sequential empty;
  EXPECT_TRUE(empty(x).same_as(x));
  Sequential relu_then_sigmoid{std::make_shared<Relu>(), std::make_shared<Sigmoid>()};
  EXPECT_NEAR(values_of(relu_then_sigmoid(x))[0], 0.5, 1e-12);
}

class BatchNormTest : public LayersTest {
 protected:
  std::vector<double> values_of_tensor(const Tensor& tensor) { return values_of(Variable(tensor)); }
};

TEST_F(BatchNormTest, NormalizesByTheBatchInTrainingAndByTheRunningStatisticsAfterwards) {
  BatchNorm1d norm(*context_, 2, {.momentum = 0.5, .epsilon = 1e-12, .dtype = DType::float64});
  norm.initialize(1);
  const Variable x = input({1, 0, 3, 4, 5, 8}, {3, 2});
  const double k = std::sqrt(1.5);  // 2 / sqrt(8 / 3), and 4 / sqrt(32 / 3)
  EXPECT_THAT(values_of(norm(x)), Pointwise(DoubleNear(1e-9), {-k, -k, 0.0, 0.0, k, k}));
  EXPECT_THAT(values_of_tensor(norm.running_mean()), ElementsAre(1.5, 2));
  EXPECT_THAT(values_of_tensor(norm.running_var()), ElementsAre(0.5 + 2, 0.5 + 8));
  norm.train(false);
  EXPECT_THAT(values_of(norm(input({1.5, 2, 4, 2}, {2, 2}))),
              Pointwise(DoubleNear(1e-9), {0.0, 0.0, 2.5 / std::sqrt(2.5), 0.0}));
  EXPECT_THAT(values_of_tensor(norm.running_mean()), ElementsAre(1.5, 2));
}

TEST_F(BatchNormTest, RegistersParametersAndBuffers) {
  const auto norm = std::make_shared<BatchNorm1d>(*context_, 3);
  const Sequential model{norm};
  std::vector<std::string> names;
  for (const auto& parameter : model.named_parameters()) names.push_back(parameter.name);
  for (const auto& buffer : model.named_buffers()) names.push_back(buffer.name);
  EXPECT_THAT(names, ElementsAre("0.weight", "0.bias", "0.running_mean", "0.running_var"));
}

TEST_F(BatchNormTest, OptionsAreCheckedAndOneRowNamesTheLayer) {
  EXPECT_THROW(BatchNorm1d(*context_, 0), UsageError);
  EXPECT_THROW(BatchNorm1d(*context_, 1, {.momentum = 1.5}), UsageError);
  EXPECT_THROW(BatchNorm1d(*context_, 1, {.epsilon = 0}), UsageError);
  const auto norm =
      std::make_shared<BatchNorm1d>(*context_, 2, BatchNormOptions{.dtype = DType::float64});
  Sequential model{norm};
  try {
    model(input({1, 2}, {1, 2}));
    ADD_FAILURE() << "expected a UsageError";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("'0'"));
  }
}

class DropoutTest : public LayersTest {
 protected:
  Variable ones(std::int64_t rows, std::int64_t columns) {
    const Tensor tensor = Tensor::empty(*context_, Shape{rows, columns}, DType::float64);
    kernels::kernels_for(*context_).fill(1.0, tensor);
    return Variable(tensor);
  }
};

TEST_F(DropoutTest, DropsAndScalesOnlyInTraining) {
  Dropout dropout(0.25);
  const Variable x = ones(100, 50);
  const std::vector<double> y = values_of(dropout(x));
  const auto dropped = std::ranges::count(y, 0.0);
  EXPECT_NEAR(static_cast<double>(dropped) / 5000, 0.25, 0.04);
  EXPECT_EQ(std::ranges::count(y, 1 / 0.75) + dropped, 5000);
  dropout.train(false);
  EXPECT_TRUE(dropout(x).same_as(x));
  EXPECT_TRUE(Dropout(0)(x).same_as(x));
}

TEST_F(DropoutTest, MaskIsKeyedByPathAndStep) {
  Sequential model{std::make_shared<Dropout>(0.5), std::make_shared<Dropout>(0.5)};
  const Variable x = ones(8, 16);
  const std::vector<double> first = values_of(model[0](x));
  EXPECT_EQ(values_of(model[0](x)), first);
  EXPECT_NE(values_of(model[1](x)), first);
  context_->random().step = 1;
  EXPECT_NE(values_of(model[0](x)), first);
  context_->random().step = 0;
  EXPECT_EQ(values_of(model[0](x)), first);
}

TEST_F(DropoutTest, ProbabilityIsChecked) {
  EXPECT_THROW(Dropout(-0.1), UsageError);
  EXPECT_THROW(Dropout(1.0), UsageError);
  EXPECT_THROW(Dropout(std::numeric_limits<double>::quiet_NaN()), UsageError);
}

}  // namespace
}  // namespace lockstep::nn

#include "framework/nn/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "framework/base/error.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/nn/embedding.h"
#include "framework/nn/linear.h"
#include "framework/nn/sequential.h"

namespace lockstep::nn {
namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
  double smallest = 0;
  double largest = 0;
};

Moments moments_of(std::span<const double> values) {
  Moments moments;
  for (const double value : values) moments.mean += value;
  moments.mean /= static_cast<double>(values.size());
  for (const double value : values) {
    moments.deviation += (value - moments.mean) * (value - moments.mean);
  }
  moments.deviation = std::sqrt(moments.deviation / static_cast<double>(values.size()));
  moments.smallest = *std::ranges::min_element(values);
  moments.largest = *std::ranges::max_element(values);
  return moments;
}

class InitTest : public testing::Test {
 protected:
  Moments draw(const Initializer& initializer, const Shape& shape) {
    const Tensor value = Tensor::empty(*context_, shape, DType::float64);
    initializer(value, base::RandomStream(7, "init:w"));
    return moments_of(value.elements<double>());
  }

  std::unique_ptr<Context> context_ = device::make_cpu_context();
};

// 60,000 draws: the standard error of a mean is 0.004 deviations, that of a deviation at most
// 0.003.
constexpr std::int64_t out = 200;
constexpr std::int64_t in = 300;

void expect_spread(const Moments& moments, double deviation) {
  EXPECT_NEAR(moments.mean, 0, 0.02 * deviation);
  EXPECT_NEAR(moments.deviation, deviation, 0.015 * deviation);
}

void expect_uniform(const Moments& moments, double deviation) {
  expect_spread(moments, deviation);
  const double bound = std::sqrt(3.0) * deviation;
  EXPECT_GE(moments.smallest, -bound);
  EXPECT_LT(moments.smallest, -0.999 * bound);
  EXPECT_LT(moments.largest, bound);
  EXPECT_GT(moments.largest, 0.999 * bound);
}

void expect_normal(const Moments& moments, double deviation) {
  expect_spread(moments, deviation);
  EXPECT_GT(moments.largest, 3 * deviation);
  EXPECT_LT(moments.largest, 6 * deviation);
  EXPECT_LT(moments.smallest, -3 * deviation);
}

TEST_F(InitTest, KaimingFollowsItsFan) {
  expect_uniform(draw(kaiming_uniform(std::sqrt(2.0)), {out, in}), std::sqrt(2.0 / in));
  expect_uniform(draw(kaiming_uniform(1.0, FanMode::out), {out, in}), std::sqrt(1.0 / out));
  expect_normal(draw(kaiming_normal(std::sqrt(2.0)), {out, in}), std::sqrt(2.0 / in));
  expect_normal(draw(kaiming_normal(1.0, FanMode::out), {out, in}), std::sqrt(1.0 / out));
}

TEST_F(InitTest, XavierFollowsBothFans) {
  expect_uniform(draw(xavier_uniform(), {out, in}), std::sqrt(2.0 / (in + out)));
  expect_normal(draw(xavier_normal(5.0 / 3.0), {out, in}), 5.0 / 3.0 * std::sqrt(2.0 / (in + out)));
}

TEST_F(InitTest, PlainDistributions) {
  const Moments uniform_draws = draw(uniform(-1.0, 3.0), {out, in});
  EXPECT_NEAR(uniform_draws.mean, 1.0, 0.03);
  EXPECT_GE(uniform_draws.smallest, -1.0);
  EXPECT_LT(uniform_draws.largest, 3.0);
  const Moments normal_draws = draw(normal(5.0, 0.5), {out, in});
  EXPECT_NEAR(normal_draws.mean, 5.0, 0.01);
  EXPECT_NEAR(normal_draws.deviation, 0.5, 0.0075);
  const Moments constants = draw(constant(-2.5), {out, in});
  EXPECT_EQ(constants.smallest, -2.5);
  EXPECT_EQ(constants.largest, -2.5);
  EXPECT_EQ(draw(zeros(), {3}).largest, 0.0);
}

TEST_F(InitTest, NeighboursAreNotCorrelated) {
  const Tensor value = Tensor::empty(*context_, {out, in}, DType::float64);
  for (const Initializer& initializer : {uniform(-1, 1), normal(0, 1)}) {
    initializer(value, base::RandomStream(3, "init:w"));
    const auto draws = value.elements<double>();
    for (const std::size_t distance : {1u, 2u, 3u, 4u, 300u}) {
      double product = 0;
      double square = 0;
      for (std::size_t i = distance; i < draws.size(); ++i) {
        product += draws[i] * draws[i - distance];
        square += draws[i] * draws[i];
      }
      EXPECT_LT(std::abs(product / square), 0.02) << "distance " << distance;
    }
  }
}

TEST_F(InitTest, FansCountTheWindow) {
  const Fans linear = fans_of({5, 3});
  EXPECT_EQ(linear.in, 3);
  EXPECT_EQ(linear.out, 5);
  const Fans convolution = fans_of({8, 4, 3, 2});
  EXPECT_EQ(convolution.in, 24);
  EXPECT_EQ(convolution.out, 48);
  EXPECT_THROW(fans_of({7}), UsageError);
  EXPECT_THROW(fans_of({0, 3}), UsageError);
}

TEST_F(InitTest, GainsArePyTorchs) {
  EXPECT_DOUBLE_EQ(gain_of(Activation::none), 1.0);
  EXPECT_DOUBLE_EQ(gain_of(Activation::sigmoid), 1.0);
  EXPECT_DOUBLE_EQ(gain_of(Activation::tanh), 5.0 / 3.0);
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh})
    EXPECT_DOUBLE_EQ(gain_of(activation), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(leaky_relu_gain(std::sqrt(5.0)), std::sqrt(1.0 / 3.0));
}

TEST_F(InitTest, AnElementDependsOnItsIndexAlone) {
  const base::RandomStream stream(11, "init:w");
  const Tensor large = Tensor::empty(*context_, {41}, DType::float64);
  for (const Initializer& initializer : {uniform(0, 1), normal(0, 1)}) {
    initializer(large, stream);
    for (const std::int64_t count : {1, 2, 3, 4, 5, 40}) {
      const Tensor small = Tensor::empty(*context_, {count}, DType::float64);
      initializer(small, stream);
      EXPECT_EQ(std::memcmp(small.data(), large.data(), small.bytes()), 0) << count;
    }
  }
  uniform(0, 1)(large, stream);
  for (std::uint64_t i = 0; i < 41; ++i) {
    EXPECT_EQ(large.elements<double>()[i], double{stream.uniform(i)});
  }
}

TEST_F(InitTest, SinglePrecisionIsTheRoundedDouble) {
  const base::RandomStream stream(11, "init:w");
  const Tensor wide = Tensor::empty(*context_, {9, 7}, DType::float64);
  const Tensor narrow = Tensor::empty(*context_, {9, 7}, DType::float32);
  kaiming_normal(1.0)(wide, stream);
  kaiming_normal(1.0)(narrow, stream);
  for (std::size_t i = 0; i < 63; ++i) {
    EXPECT_EQ(narrow.elements<float>()[i], static_cast<float>(wide.elements<double>()[i]));
  }
}

// All parameters of a small model, one after the other.
std::vector<float> weights_of(Context& context, std::uint64_t seed) {
  Sequential model{std::make_shared<Linear>(context, 13, 9),
                   std::make_shared<Linear>(context, 9, 9),
                   std::make_shared<Linear>(context, 9, 9)};
  model.initialize(seed);
  std::vector<float> weights;
  for (const NamedParameter& parameter : model.named_parameters()) {
    const auto values = parameter.variable.value().elements<float>();
    weights.insert(weights.end(), values.begin(), values.end());
  }
  return weights;
}

TEST_F(InitTest, WeightsAreAFunctionOfSeedAndName) {
  const std::vector<float> weights = weights_of(*context_, 1);
  EXPECT_EQ(weights_of(*context_, 1), weights);
  EXPECT_EQ(weights_of(*device::make_cpu_context(3), 1), weights);
  EXPECT_NE(weights_of(*context_, 2), weights);
  // Equal shapes, other names: layers 1 and 2.
  const auto layer1 = weights.begin() + 13 * 9 + 9;
  const auto layer2 = layer1 + 9 * 9 + 9;
  EXPECT_FALSE(std::equal(layer1, layer1 + 9 * 9, layer2));
}

TEST_F(InitTest, LinearStartsWithWhatSuitsItsActivation) {
  const auto spread = [&](Activation activation) {
    Linear linear(*context_, in, out, {.activation = activation, .dtype = DType::float64});
    linear.initialize(5);
    EXPECT_THAT(linear.bias().value().elements<double>(), testing::Each(0.0));
    return moments_of(linear.weight().value().elements<double>());
  };
  expect_uniform(spread(Activation::none), std::sqrt(1.0 / 3.0 / in));
  expect_uniform(spread(Activation::relu), std::sqrt(2.0 / in));
  expect_uniform(spread(Activation::gelu), std::sqrt(2.0 / in));
  expect_uniform(spread(Activation::gelu_tanh), std::sqrt(2.0 / in));
  expect_uniform(spread(Activation::tanh), 5.0 / 3.0 * std::sqrt(2.0 / (in + out)));
  expect_uniform(spread(Activation::sigmoid), std::sqrt(2.0 / (in + out)));
}

TEST_F(InitTest, EmbeddingsStartNormal) {
  Embedding embedding(*context_, out, in, {.dtype = DType::float64});
  embedding.initialize(5);
  expect_normal(moments_of(embedding.weight().value().elements<double>()), 1.0);
  Embedding constants(*context_, 2, 3, {.weight_initializer = constant(0.5)});
  constants.initialize(5);
  EXPECT_THAT(constants.weight().value().elements<float>(), testing::Each(0.5f));
}

}  // namespace
}  // namespace lockstep::nn

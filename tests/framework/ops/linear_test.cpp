#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

using Linear = OpsTest;

constexpr Activation activations[] = {Activation::none, Activation::relu, Activation::gelu,
                                      Activation::tanh, Activation::sigmoid};

TEST_F(Linear, Gradients) {
  for (const Activation activation : activations) {
    for (int round = 0; round < 20; ++round) {
      const Shape x = random.shape(1, 3);
      const std::int64_t out = random.integer(1, 4);
      const Tensor weight = random.uniform({out, x.back()});
      expect_gradients([=](const auto& in) { return linear(in[0], in[1], in[2], activation); },
                       {random.uniform(x), weight, random.uniform({out})});
      expect_gradients([=](const auto& in) { return linear(in[0], in[1], {}, activation); },
                       {random.uniform(x), weight});
    }
  }
}

TEST_F(Linear, GradientWhenOperandsAreTheSame) {
  expect_gradients([](const auto& in) { return linear(in[0], in[0], {}); },
                   {random.uniform({3, 3})});
  expect_gradients([](const auto& in) { return linear(in[0], in[1], in[0], Activation::sigmoid); },
                   {random.uniform({3}), random.uniform({3, 3})});
}

// Every subset of operands may be frozen; the gradients of the others do not change.
TEST_F(Linear, FrozenOperandsGetNoGradient) {
  const Tensor values_of[] = {random.uniform({2, 3}), random.uniform({4, 3}), random.uniform({4})};
  for (const Activation activation : activations) {
    std::vector<std::vector<double>> expected;
    for (unsigned frozen = 0; frozen < 7; ++frozen) {
      std::vector<Variable> in;
      for (unsigned i = 0; i < 3; ++i) in.emplace_back(values_of[i], (frozen >> i & 1) == 0);
      autograd::backward(sum(linear(in[0], in[1], in[2], activation)));
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(in[i].grad().defined(), in[i].requires_grad());
        if (frozen == 0) expected.push_back(values(in[i].grad()));
        if (in[i].requires_grad()) {
          EXPECT_EQ(values(in[i].grad()), expected[i]);
        }
      }
    }
  }
}

// A rank whose shard is empty adds exactly nothing.
TEST_F(Linear, NoRowsGiveZeroGradients) {
  for (const Activation activation : activations) {
    const Variable weight(random.uniform({4, 3}), true), bias(random.uniform({4}), true);
    autograd::backward(sum(linear(leaf({}, {0, 3}), weight, bias, activation)));
    EXPECT_THAT(values(weight.grad()), testing::Each(0.0));
    EXPECT_THAT(values(bias.grad()), testing::Each(0.0));
  }
}

// The incoming gradient of a sum feeds both branches; an activation's backward must not write on
// it.
TEST_F(Linear, ASharedGradientIsNotOverwritten) {
  for (const Activation activation : activations) {
    expect_gradients(
        [=](const auto& in) {
          const Variable left = linear(in[0], in[1], in[2], activation);
          const Variable right = linear(in[3], in[1], in[2], activation);
          return left + right + in[4];
        },
        {random.uniform({2, 2}), random.uniform({3, 2}), random.uniform({3}),
         random.uniform({2, 2}), random.uniform({2, 3})});
  }
}

TEST_F(Linear, MistakesNameOperandsAndShapes) {
  const Variable x = constant({5, 3}), weight = constant({4, 3});
  expect_usage_error([&] { linear(x, constant({3, 4}), {}); }, {"linear", "x", "[5, 3]", "[3, 4]"});
  expect_usage_error([&] { linear(x, constant({3}), {}); }, {"linear", "weight has shape [3]"});
  expect_usage_error([&] { linear(constant({}), weight, {}); }, {"linear", "x has shape []"});
  expect_usage_error([&] { linear(x, weight, constant({3})); },
                     {"linear", "bias has shape [3]", "expected [4]"});
  expect_usage_error([&] { linear(x, weight, constant({4}, DType::float32)); },
                     {"linear", "bias", "float32", "float64"});
  expect_usage_error(
      [&] {
        linear(constant({5, 3}, DType::int32), weight, {});
      },
      {"linear", "x", "int32"});
}

}  // namespace
}  // namespace lockstep::ops

#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

using Linear = OpsTest;

constexpr Activation activations[] = {Activation::none,      Activation::relu, Activation::gelu,
                                      Activation::gelu_tanh, Activation::tanh, Activation::sigmoid};

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
// An activation's gradient takes the memory of the one that came, where nobody else has it.
TEST_F(Linear, TheBackwardOfAnActivationNeedsNoMemory) {
  const auto requests = [&](Activation activation) {
    Variable weight(random.uniform({4, 3}), true), bias(random.uniform({4}), true);
    for (Variable* const parameter : {&weight, &bias})
      parameter->set_grad(Tensor::empty(context, parameter->shape(), DType::float64));
    const Variable y = linear(Variable(random.uniform({5, 3})), weight, bias, activation);
    const Variable loss = sum(multiply(y, y));
    const auto before = context.allocator().statistics().requests;
    autograd::backward(loss);
    return context.allocator().statistics().requests - before;
  };
  for (const Activation activation : activations)
    EXPECT_EQ(requests(activation), requests(Activation::none));
}

// A large weight's gradient becomes final in blocks of rows, while the rest is still computed.
TEST_F(Linear, LargeWeightsAreAnnouncedInBlocksOfRows) {
  constexpr std::int64_t out = 1000, in = 300, rows = 3;
  const Variable x(random.uniform({rows, in}), true), weight(random.uniform({out, in}), true),
      bias(random.uniform({out}), true);
  std::vector<std::int64_t> borders = {0};
  autograd::BackwardOptions options;
  options.on_gradient_ready = [&](const Variable& leaf, std::int64_t begin, std::int64_t end) {
    if (leaf.same_as(weight)) {
      EXPECT_EQ(begin, borders.back());
      EXPECT_EQ(end % in, 0);
      // Of the rest nothing is written yet: it holds what the test put there.
      if (end < out * in) {
        EXPECT_EQ(weight.grad().elements<double>()[static_cast<std::size_t>(end)], 7);
      }
      EXPECT_FALSE(x.grad().defined());
      borders.push_back(end);
    }
  };
  Variable parameter = weight;
  parameter.set_grad(Tensor::empty(context, {out, in}, DType::float64));
  kernels::cpu_kernels().fill(7, weight.grad());
  const Variable y = linear(x, weight, bias);
  autograd::backward(sum(multiply(y, y)), options);
  EXPECT_EQ(borders.back(), out * in);
  EXPECT_GT(borders.size(), 2u);
  // The bits are those of one product.
  const Tensor grad = Tensor::empty(context, {rows, out}, DType::float64),
               expected = Tensor::empty(context, {out, in}, DType::float64);
  kernels::cpu_kernels().axpby(2, y.value(), 0, grad);
  kernels::cpu_kernels().matmul(grad.transpose(0, 1), x.value(), expected, false);
  EXPECT_EQ(values(weight.grad()), values(expected));
}

// A weight that is used twice is announced when the second use has added to it.
TEST_F(Linear, TiedLargeWeightsAreAnnouncedAtTheLastUse) {
  constexpr std::int64_t width = 600;
  const Variable weight(random.uniform({width, width}), true);
  std::int64_t announced = 0;
  autograd::BackwardOptions options;
  options.on_gradient_ready = [&](const Variable&, std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(begin, announced);
    announced = end;
  };
  const Variable x(random.uniform({1, width}));
  autograd::backward(sum(linear(linear(x, weight, {}), weight, {})), options);
  EXPECT_EQ(announced, width * width);
  const auto whole = values(weight.grad());
  options.accumulate = true;
  announced = 0;
  autograd::backward(sum(linear(linear(x, weight, {}), weight, {})), options);
  EXPECT_EQ(announced, width * width);
  const auto doubled = values(weight.grad());
  for (std::size_t i = 0; i < whole.size(); ++i)
    ASSERT_NEAR(doubled[i], 2 * whole[i], 1e-9 * std::abs(whole[i]));
}

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

#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

using testing::ElementsAre;

using Arithmetic = OpsTest;

TEST_F(Arithmetic, GradientsOfBroadcastOperands) {
  const std::vector<Function> functions = {
      [](const auto& in) { return add(in[0], in[1]); },
      [](const auto& in) { return subtract(in[0], in[1]); },
      [](const auto& in) { return multiply(in[0], in[1]); },
      [](const auto& in) { return divide(in[0], in[1]); },
  };
  for (int round = 0; round < 30; ++round) {
    const Shape shape = random.shape(0, 3);
    const Tensor a = random.uniform(random.broadcastable(shape));
    const Tensor b = random.uniform(random.broadcastable(shape), 0.5, 2);
    for (const Function& f : functions) expect_gradients(f, {a, b});
  }
}

TEST_F(Arithmetic, GradientOfScale) {
  for (int round = 0; round < 15; ++round) {
    expect_gradients([](const auto& in) { return scale(in[0], -1.5); },
                     {random.uniform(random.shape(0, 3))});
  }
}

TEST_F(Arithmetic, GradientWhenBothOperandsAreTheSame) {
  const std::vector<Function> functions = {
      [](const auto& in) { return in[0] + in[0]; },
      [](const auto& in) { return in[0] - in[0] * 3.0; },
      [](const auto& in) { return in[0] * in[0]; },
      [](const auto& in) { return in[0] / in[0] + in[0]; },
  };
  for (const Function& f : functions) expect_gradients(f, {random.uniform({2, 3}, 0.5, 2)});
}

TEST_F(Arithmetic, OperatorsReadLikeTheFormula) {
  const Variable a = leaf({1, 2, 3}, {3}), b = leaf({2}, {1});
  EXPECT_THAT(values(((a + b) * a - b / a * 2.0).value()), ElementsAre(-1, 6, 15 - 4.0 / 3));
}

TEST_F(Arithmetic, OnlyTheOperandThatWantsAGradientGetsOne) {
  const Variable a = leaf({1, 2}, {2}), b(Tensor::from(context, {3.0, 4.0}, {2}));
  for (const Variable& y : {a * b, b * a, a + b, b - a, a / b, b / a}) autograd::backward(sum(y));
  EXPECT_FALSE(b.grad().defined());
}

TEST_F(Arithmetic, MistakesNameOperationOperandsAndShapes) {
  const Variable a = constant({2, 3}), b = constant({2, 4});
  expect_usage_error([&] { add(a, b); }, {"add", "a of shape [2, 3]", "b of shape [2, 4]"});
  expect_usage_error([&] { divide(a, b); }, {"divide", "[2, 3]", "[2, 4]"});
  expect_usage_error(
      [&] {
        multiply(a, constant({2, 3}, DType::float32));
      },
      {"multiply", "float64", "float32"});
  expect_usage_error([&] { subtract(constant({2}, DType::int32), constant({2}, DType::int32)); },
                     {"subtract", "a has dtype int32"});
  expect_usage_error([&] { scale(constant({2}, DType::bfloat16), 2); }, {"scale", "bfloat16"});
  expect_usage_error([&] { add(a, Variable()); }, {"undefined"});
  const std::unique_ptr<Context> other = device::make_cpu_context();
  expect_usage_error(
      [&] {
        add(a, Variable(Tensor::empty(*other, {2, 3}, DType::float64)));
      },
      {"add", "different contexts"});
}

}  // namespace
}  // namespace lockstep::ops

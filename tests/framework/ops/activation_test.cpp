#include <cmath>

#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

using Activations = OpsTest;

TEST_F(Activations, Gradients) {
  const std::vector<Function> functions = {
      [](const auto& in) { return relu(in[0]); },      [](const auto& in) { return gelu(in[0]); },
      [](const auto& in) { return gelu_tanh(in[0]); }, [](const auto& in) { return tanh(in[0]); },
      [](const auto& in) { return sigmoid(in[0]); },   [](const auto& in) { return exp(in[0]); },
  };
  for (int round = 0; round < 25; ++round) {
    const Tensor x = random.uniform(random.shape(0, 3));
    for (const Function& f : functions) expect_gradients(f, {x});
    expect_gradients([](const auto& in) { return log(in[0]); },
                     {random.uniform(x.shape(), 0.5, 3)});
  }
}

TEST_F(Activations, LargeInputsSaturate) {
  const Variable x = leaf({-1000, 1000}, {2});
  EXPECT_THAT(values(sigmoid(x).value()), testing::ElementsAre(0, 1));
  EXPECT_THAT(values(tanh(x).value()), testing::ElementsAre(-1, 1));
  EXPECT_THAT(values(gelu(x).value()), testing::ElementsAre(0, 1000));
  EXPECT_THAT(values(gelu_tanh(x).value()), testing::ElementsAre(0, 1000));
  autograd::backward(sum(sigmoid(x) + tanh(x) + gelu(x) + gelu_tanh(x)));
  EXPECT_THAT(values(x.grad()), testing::ElementsAre(0, 2));
}

TEST_F(Activations, NanPasses) {
  const double nan = std::nan("");
  const Variable x = leaf({nan}, {1});
  for (const auto f : {&relu, &gelu, &gelu_tanh, &tanh, &sigmoid, &exp, &log}) {
    EXPECT_TRUE(std::isnan(f(x).value().item<double>()));
  }
}

TEST_F(Activations, OtherTypesAreRefused) {
  expect_usage_error([&] { relu(constant({2}, DType::int64)); },
                     {"relu", "int64", "float32 or float64"});
}

}  // namespace
}  // namespace lockstep::ops

#include <cmath>

#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

using Softmax = OpsTest;

TEST_F(Softmax, Gradients) {
  for (int round = 0; round < 30; ++round) {
    const Tensor x = random.uniform(random.shape(1, 3));
    expect_gradients([](const auto& in) { return softmax(in[0]); }, {x});
    expect_gradients([](const auto& in) { return log_softmax(in[0]); }, {x});
  }
}

TEST_F(Softmax, LargeInputsDoNotOverflow) {
  const Variable x = leaf({1000, 1000, -1000}, {1, 3});
  EXPECT_THAT(values(softmax(x).value()), testing::ElementsAre(0.5, 0.5, 0));
  const auto y = values(log_softmax(x).value());
  EXPECT_NEAR(y[0], -std::log(2), 1e-15);
  EXPECT_NEAR(y[2], -2000 - std::log(2), 1e-12);
}

TEST_F(Softmax, MistakesNameTheOperation) {
  expect_usage_error([&] { softmax(constant({})); }, {"softmax", "scalar"});
  expect_usage_error([&] { log_softmax(constant({2}, DType::int32)); }, {"log_softmax", "int32"});
}

}  // namespace
}  // namespace lockstep::ops

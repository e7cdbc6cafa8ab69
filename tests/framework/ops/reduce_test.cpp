#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

using Reductions = OpsTest;

TEST_F(Reductions, GradientsOverRandomAxes) {
  for (int round = 0; round < 40; ++round) {
    const Tensor x = random.uniform(random.shape(0, 4));
    std::vector<int> axes;
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (random.integer(0, 1) == 1)
        axes.push_back(random.integer(0, 1) == 1 ? axis : axis - x.rank());
    }
    const bool keep = random.integer(0, 1) == 1;
    expect_gradients([=](const auto& in) { return sum(in[0], axes, keep); }, {x});
    expect_gradients([=](const auto& in) { return mean(in[0], axes, keep); }, {x});
  }
}

TEST_F(Reductions, Shapes) {
  const Variable x = constant({2, 3, 4});
  const std::vector<int> axes = {-1, 0};
  EXPECT_EQ(sum(x).shape(), Shape());
  EXPECT_EQ(sum(x, {}, true).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(mean(x, axes).shape(), (Shape{3}));
  EXPECT_EQ(mean(x, axes, true).shape(), (Shape{1, 3, 1}));
}

TEST_F(Reductions, OfNothing) {
  EXPECT_EQ(sum(constant({0, 3})).value().item<double>(), 0);
  const std::vector<int> rows = {0};
  EXPECT_THAT(values(sum(constant({0, 3}), rows).value()), testing::ElementsAre(0, 0, 0));
  expect_usage_error([&] { mean(constant({0, 3})); }, {"mean", "[0, 3]", "no elements"});
}

TEST_F(Reductions, MistakesNameOperationAndAxis) {
  const Variable x = constant({2, 3});
  const std::vector<int> outside = {2}, twice = {1, -1};
  expect_usage_error([&] { sum(x, outside); }, {"sum", "axis 2", "[2, 3]"});
  expect_usage_error([&] { mean(x, twice); }, {"mean", "axis -1", "twice"});
  expect_usage_error([&] { sum(constant({2}, DType::uint8)); }, {"sum", "uint8"});
}

}  // namespace
}  // namespace lockstep::ops

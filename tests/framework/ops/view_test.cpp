#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

using testing::ElementsAre;

using Views = OpsTest;

TEST_F(Views, GradientOfReshape) {
  for (int round = 0; round < 25; ++round) {
    const Tensor x = random.uniform(random.shape(1, 4));
    expect_gradients([](const auto& in) { return reshape(in[0], {1, -1}); }, {x});
    expect_gradients([](const auto& in) { return reshape(in[0], {-1, in[0].shape()[0]}); }, {x});
  }
  expect_gradients([](const auto& in) { return reshape(in[0], {}); }, {random.uniform({1, 1})});
}

TEST_F(Views, GradientOfTranspose) {
  for (int round = 0; round < 25; ++round) {
    const Tensor x = random.uniform(random.shape(1, 4));
    const int a = static_cast<int>(random.integer(-x.rank(), x.rank() - 1));
    const int b = static_cast<int>(random.integer(-x.rank(), x.rank() - 1));
    expect_gradients([=](const auto& in) { return transpose(in[0], a, b); }, {x});
  }
}

TEST_F(Views, GradientOfSliceIsZeroElsewhere) {
  for (int round = 0; round < 40; ++round) {
    const Tensor x = random.uniform(random.shape(1, 3));
    const int axis = static_cast<int>(random.integer(-x.rank(), x.rank() - 1));
    const std::int64_t extent = x.shape()[x.shape().normalized_axis(axis)];
    const std::int64_t begin = random.integer(0, extent - 1);
    const std::int64_t end = random.integer(begin + 1, extent);
    expect_gradients([=](const auto& in) { return slice(in[0], axis, begin, end); }, {x});
  }
}

TEST_F(Views, SlicesOfOneTensorAddUp) {
  expect_gradients(
      [](const auto& in) {
        return slice(in[0], 1, 0, 2) * slice(in[0], 1, 2, 4) + slice(in[0], 1, 1, 3);
      },
      {random.uniform({3, 4})});
}

TEST_F(Views, SliceOverwritesWhatTheGradientHeld) {
  const Variable x = leaf({1, 2, 3}, {3});
  Variable(x).set_grad(Tensor::from(context, {7.0, 7.0, 7.0}, {3}));
  autograd::backward(sum(slice(x, 0, 1, 2)));
  EXPECT_THAT(values(x.grad()), ElementsAre(0, 1, 0));
  autograd::BackwardOptions options;
  options.accumulate = true;
  autograd::backward(sum(slice(x, 0, 1, 3)), options);
  EXPECT_THAT(values(x.grad()), ElementsAre(0, 2, 1));
}

TEST_F(Views, GradientOfConcat) {
  for (int round = 0; round < 25; ++round) {
    Shape shape = random.shape(1, 3);
    const int axis = static_cast<int>(random.integer(0, shape.rank() - 1));
    std::vector<Tensor> parts;
    for (int part = 0; part < 3; ++part) {
      shape[axis] = random.integer(1, 3);
      parts.push_back(random.uniform(shape));
    }
    expect_gradients([=](const auto& in) { return concat(in, axis); }, parts);
  }
  expect_gradients(
      [](const auto& in) {
        return concat({in[0], in[0]}, -1);
      },
      {random.uniform({2, 2})});
}

TEST_F(Views, ReshapeSharesMemoryWhereItCan) {
  const Variable x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_TRUE(reshape(x, {3, -1}).value().shares_memory_with(x.value()));
  const Variable turned = reshape(transpose(x, 0, 1), {6});
  EXPECT_FALSE(turned.value().shares_memory_with(x.value()));
  EXPECT_THAT(values(turned.value()), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST_F(Views, EmptyPartsAreFine) {
  const Variable x = leaf({1, 2}, {2}), none = slice(x, 0, 1, 1);
  EXPECT_EQ(none.shape(), (Shape{0}));
  autograd::backward(sum(concat({none, x, none}, 0)));
  EXPECT_THAT(values(x.grad()), ElementsAre(1, 1));
}

TEST_F(Views, MistakesNameOperationAndShapes) {
  const Variable x = constant({2, 3});
  expect_usage_error([&] { reshape(x, {4, -1}); }, {"reshape", "[2, 3]", "[4, -1]"});
  expect_usage_error([&] { reshape(x, {-1, -1}); }, {"reshape", "[-1, -1]"});
  expect_usage_error([&] { reshape(x, {5}); }, {"reshape", "[2, 3]", "[5]"});
  expect_usage_error([&] { reshape(constant({0, 3}), {0, -1}); }, {"reshape", "[0, 3]"});
  expect_usage_error([&] { transpose(x, 0, 2); }, {"transpose", "axis 2", "[2, 3]"});
  expect_usage_error([&] { slice(x, 1, 2, 4); }, {"slice", "[2, 4)", "axis 1", "[2, 3]"});
  expect_usage_error([&] { slice(x, -3, 0, 1); }, {"slice", "axis -3", "[2, 3]"});
  expect_usage_error([&] { concat({}, 0); }, {"concat", "no parts"});
  expect_usage_error(
      [&] {
        concat({x, constant({3, 3})}, 1);
      },
      {"concat", "part 1 has shape [3, 3]", "[2, 3]", "axis 1"});
  expect_usage_error([&] { concat({x, constant({2})}, 1); }, {"concat", "part 1 has shape [2]"});
  expect_usage_error(
      [&] {
        concat({x, constant({2, 3}, DType::float32)}, 1);
      },
      {"concat", "part 1", "float32"});
}

}  // namespace
}  // namespace lockstep::ops

#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

using Matmul = OpsTest;

Shape with_matrix(const Shape& batch, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> extents(batch.extents().begin(), batch.extents().end());
  extents.insert(extents.end(), {rows, columns});
  return Shape(std::span<const std::int64_t>(extents));
}

TEST_F(Matmul, GradientsOverBroadcastBatches) {
  for (int round = 0; round < 50; ++round) {
    const Shape batch = random.shape(0, 2);
    const std::int64_t m = random.integer(1, 3), k = random.integer(1, 3), n = random.integer(1, 3);
    const Tensor a = random.uniform(with_matrix(random.broadcastable(batch), m, k));
    const Tensor b = random.uniform(with_matrix(random.broadcastable(batch), k, n));
    expect_gradients([](const auto& in) { return matmul(in[0], in[1]); }, {a, b});
  }
}

TEST_F(Matmul, GradientOfOneMatrixForAWholeBatch) {
  expect_gradients([](const auto& in) { return matmul(in[0], in[1]); },
                   {random.uniform({2, 3, 2, 4}), random.uniform({4, 3})});
}

TEST_F(Matmul, GradientOfASquare) {
  expect_gradients([](const auto& in) { return matmul(in[0], in[0]); }, {random.uniform({3, 3})});
  expect_gradients([](const auto& in) { return matmul(in[0], transpose(in[0], -1, -2)); },
                   {random.uniform({2, 3, 2})});
}

TEST_F(Matmul, AnEmptySumIsZero) {
  const Variable a = leaf({}, {2, 0}), b = leaf({}, {0, 3});
  const Variable c = matmul(a, b);
  EXPECT_THAT(values(c.value()), testing::Each(0.0));
  autograd::backward(sum(c));
  EXPECT_EQ(a.grad().shape(), a.shape());
}

TEST_F(Matmul, MistakesNameBothShapes) {
  const Variable a = constant({2, 3, 4});
  expect_usage_error([&] { matmul(a, constant({3, 4})); }, {"matmul", "[2, 3, 4]", "[3, 4]"});
  expect_usage_error([&] { matmul(a, constant({4})); }, {"matmul", "[2, 3, 4]", "[4]"});
  expect_usage_error(
      [&] {
        matmul(a, constant({3, 4, 2}));
      },
      {"matmul", "[2, 3, 4]", "[3, 4, 2]", "broadcast"});
  expect_usage_error(
      [&] {
        matmul(a, constant({4, 2}, DType::float32));
      },
      {"matmul", "float64", "float32"});
}

}  // namespace
}  // namespace lockstep::ops

#include <cmath>

#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

class DropoutTest : public OpsTest {
 protected:
  Variable ones(const Shape& shape) {
    const std::vector<double> values(static_cast<std::size_t>(shape.count()), 1.0);
    return Variable(Tensor::from(context, std::span<const double>(values), shape), true);
  }
  std::vector<double> mask(std::string_view name, const Shape& shape = {8, 16}) {
    return values(dropout(ones(shape), 0.5, name).value());
  }
};

TEST_F(DropoutTest, Gradient) {
  for (int round = 0; round < 15; ++round) {
    expect_gradients([](const auto& in) { return dropout(in[0], 0.4, "drop"); },
                     {random.uniform(random.shape(1, 3))});
  }
}

TEST_F(DropoutTest, KeepsTheExpectedShareAndScale) {
  const Variable x = ones({100, 100});
  const Variable y = dropout(x, 0.25, "drop");
  double kept = 0;
  for (const double value : values(y.value())) {
    EXPECT_TRUE(value == 0 || std::abs(value - 4.0 / 3) < 1e-12) << value;
    kept += value != 0;
  }
  EXPECT_NEAR(kept, 7500, 5 * std::sqrt(10000 * 0.25 * 0.75));
  autograd::backward(sum(y));
  EXPECT_EQ(values(x.grad()), values(y.value()));  // the same mask, on ones
}

TEST_F(DropoutTest, TheMaskFollowsNameSeedAndStep) {
  const auto first = mask("a");
  EXPECT_EQ(mask("a"), first);
  EXPECT_NE(mask("b"), first);
  context.random().step = 1;
  EXPECT_NE(mask("a"), first);
  context.random() = {.seed = 5};
  EXPECT_NE(mask("a"), first);
}

TEST_F(DropoutTest, TheMaskDoesNotDependOnTheSharding) {
  const auto whole = mask("a", {7, 3, 5});
  std::vector<double> shards;
  for (const auto& [begin, end] : {std::pair{0, 3}, {3, 4}, {4, 7}}) {
    context.random().first_row = begin;
    const auto shard = mask("a", {end - begin, 3, 5});
    shards.insert(shards.end(), shard.begin(), shard.end());
  }
  EXPECT_EQ(shards, whole);
}

TEST_F(DropoutTest, ProbabilityZeroIsTheIdentity) {
  const Variable x = ones({3});
  EXPECT_TRUE(dropout(x, 0, "drop").same_as(x));
}

TEST_F(DropoutTest, Mistakes) {
  expect_usage_error([&] { dropout(constant({2}), 1.0, "drop"); }, {"dropout 'drop'", "p is 1"});
  expect_usage_error([&] { dropout(constant({2}), std::nan(""), "drop"); }, {"dropout 'drop'"});
  expect_usage_error([&] { dropout(constant({}), 0.5, "drop"); }, {"dropout 'drop'", "scalar"});
  expect_usage_error([&] { dropout(constant({2}, DType::int32), 0.5, "drop"); },
                     {"dropout", "int32"});
}

}  // namespace
}  // namespace lockstep::ops

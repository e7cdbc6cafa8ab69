#include "tests/framework/ops/fixture.h"

namespace lockstep::ops {
namespace {

class Embedding : public OpsTest {
 protected:
  Tensor indices(const std::vector<std::int64_t>& values, const Shape& shape) {
    return Tensor::from<std::int64_t>(context, values, shape);
  }
  // Half of them name the first few rows, so that many repeat.
  Tensor random_indices(const Shape& shape, std::int64_t rows) {
    std::vector<std::int64_t> drawn(static_cast<std::size_t>(shape.count()));
    for (std::int64_t& index : drawn) {
      index = random.integer(0, 1) == 0 ? random.integer(0, rows / 4) : random.integer(0, rows - 1);
    }
    return indices(drawn, shape);
  }
};

TEST_F(Embedding, TakesRowsForIndicesOfAnyShape) {
  const Variable table = leaf({0, 1, 10, 11, 20, 21}, {3, 2});
  const Variable y = embedding(table, indices({2, 0, 2, 1}, {2, 2}));
  EXPECT_EQ(y.shape(), Shape({2, 2, 2}));
  EXPECT_THAT(values(y.value()), testing::ElementsAre(20, 21, 0, 1, 20, 21, 10, 11));
  EXPECT_EQ(embedding(table, indices({1}, {})).shape(), Shape({2}));
  // Strided indices: columns of a matrix.
  const Tensor columns = indices({2, 0, 2, 1}, {2, 2}).transpose(0, 1);
  EXPECT_THAT(values(embedding(table, columns).value()),
              testing::ElementsAre(20, 21, 20, 21, 0, 1, 10, 11));
}

TEST_F(Embedding, Gradients) {
  for (int round = 0; round < 20; ++round) {
    const std::int64_t rows = random.integer(1, 6);
    const Tensor chosen = random_indices(random.shape(0, 3), rows);
    expect_gradients([=](const auto& in) { return embedding(in[0], chosen); },
                     {random.uniform({rows, random.integer(1, 4)})});
  }
}

// The table is the weight of the last layer too, as in language models.
TEST_F(Embedding, GradientOfATiedTable) {
  const Tensor chosen = indices({1, 4, 1, 0}, {2, 2});
  expect_gradients([=](const auto& in) { return linear(embedding(in[0], chosen), in[0], {}); },
                   {random.uniform({5, 3})});
}

// A rank whose shard is empty adds exactly nothing.
TEST_F(Embedding, NoIndicesGiveAZeroGradient) {
  Variable table(random.uniform({4, 3}), true);
  table.set_grad(random.uniform({4, 3}));  // overwritten
  const Variable y = embedding(table, indices({}, {0, 2}));
  EXPECT_EQ(y.shape(), Shape({0, 2, 3}));
  autograd::backward(sum(y));
  EXPECT_THAT(values(table.grad()), testing::Each(0.0));
}

TEST_F(Embedding, AccumulatesOnTheGradientThatIsThere) {
  const Variable table = leaf({0, 0, 0}, {3, 1});
  autograd::backward(sum(embedding(table, indices({0, 2, 2}, {3}))));
  EXPECT_THAT(values(table.grad()), testing::ElementsAre(1, 0, 2));
  autograd::BackwardOptions accumulating;
  accumulating.accumulate = true;
  autograd::backward(sum(embedding(table, indices({2, 1}, {2}))), accumulating);
  EXPECT_THAT(values(table.grad()), testing::ElementsAre(1, 1, 3));
  autograd::backward(sum(embedding(table, indices({1}, {1}))));
  EXPECT_THAT(values(table.grad()), testing::ElementsAre(0, 1, 0));
}

TEST_F(Embedding, AConstantTableRecordsNothing) {
  const Variable y = embedding(Variable(random.uniform({4, 3})), indices({1, 3}, {2}));
  EXPECT_FALSE(y.requires_grad());
}

// A large table's gradient becomes final in blocks of rows, while the rest is still computed.
TEST_F(Embedding, LargeTablesAreAnnouncedInBlocksOfRows) {
  constexpr std::int64_t rows = 3000, width = 130, positions = 500;
  const Tensor chosen = random_indices({positions}, rows);
  Variable table(random.uniform({rows, width}), true);
  table.set_grad(Tensor::empty(context, {rows, width}, DType::float64));
  kernels::cpu_kernels().fill(7, table.grad());
  std::vector<std::int64_t> borders = {0};
  autograd::BackwardOptions options;
  options.on_gradient_ready = [&](const Variable& leaf, std::int64_t begin, std::int64_t end) {
    EXPECT_TRUE(leaf.same_as(table));
    EXPECT_EQ(begin, borders.back());
    EXPECT_GT(end, begin);
    EXPECT_EQ(end % width, 0);
    EXPECT_LT((end - begin) * 8, 3 << 19);  // bytes: about 1 MiB
    // Of the rest nothing is written yet: it holds what the test put there.
    if (end < rows * width) {
      EXPECT_EQ(table.grad().elements<double>()[static_cast<std::size_t>(end)], 7);
    }
    borders.push_back(end);
  };
  const Variable y = embedding(table, chosen);
  autograd::backward(sum(multiply(y, y)), options);
  EXPECT_EQ(borders.back(), rows * width);
  EXPECT_GT(borders.size(), 3u);

  // The bits are those of adding row by row in the order of positions.
  std::vector<double> expected(static_cast<std::size_t>(rows * width));
  const auto of_y = values(y.value());
  const auto of_index = chosen.elements<std::int64_t>();
  for (std::size_t position = 0; position < of_index.size(); ++position) {
    for (std::size_t i = 0; i < width; ++i) {
      expected[static_cast<std::size_t>(of_index[position]) * width + i] +=
          2 * of_y[position * width + i];
    }
  }
  EXPECT_EQ(values(table.grad()), expected);
}

// A table that is a linear weight too is announced when its last use has added to it.
TEST_F(Embedding, TiedLargeTablesAreAnnouncedAtTheLastUse) {
  constexpr std::int64_t rows = 900, width = 300;
  const Tensor chosen = random_indices({40}, rows);
  const Variable table(random.uniform({rows, width}), true);
  const auto loss = [&] { return sum(linear(embedding(table, chosen), table, {})); };
  autograd::backward(loss());
  const auto whole = values(table.grad());
  std::int64_t announced = 0, times = 0;
  autograd::BackwardOptions options;
  options.on_gradient_ready = [&](const Variable&, std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(begin, announced);
    for (std::int64_t i = begin; i < end; ++i) {
      ASSERT_EQ(table.grad().elements<double>()[static_cast<std::size_t>(i)],
                whole[static_cast<std::size_t>(i)]);
    }
    announced = end;
    ++times;
  };
  autograd::backward(loss(), options);
  EXPECT_EQ(announced, rows * width);
  EXPECT_GT(times, 1);
}

TEST_F(Embedding, MistakesNameOperandsAndValues) {
  const Variable table = constant({4, 3});
  const Tensor chosen = indices({0, 1}, {2});
  expect_usage_error([&] { embedding(constant({4}), chosen); },
                     {"embedding", "table has shape [4]", "[rows, width]"});
  expect_usage_error(
      [&] {
        embedding(constant({4, 3}, DType::int32), chosen);
      },
      {"embedding", "table", "int32"});
  expect_usage_error([&] { embedding(table, constant({2}).value()); },
                     {"embedding", "indices are float64 [2]", "expected int64"});
  expect_usage_error([&] { embedding(table, {}); }, {"embedding", "indices are undefined"});
  expect_usage_error(
      [&] {
        embedding(table, indices({0, 3, 4}, {3}));
      },
      {"embedding", "position 2 is 4", "[0, 4)"});
  const auto other = device::make_cpu_context();
  expect_usage_error([&] { embedding(table, Tensor::from<std::int64_t>(*other, {0}, {1})); },
                     {"embedding", "different contexts"});
}

}  // namespace
}  // namespace lockstep::ops

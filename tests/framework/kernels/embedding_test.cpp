#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();

using Integers = std::vector<std::int64_t>;

Tensor of_integers(Context& context, const Integers& values, const Shape& shape) {
  return Tensor::from<std::int64_t>(context, values, shape);
}

Tensor random_indices(Context& context, Random& random, const Shape& shape, std::int64_t rows) {
  Integers indices(static_cast<std::size_t>(shape.count()));
  for (std::int64_t& index : indices) index = random.integer(0, rows - 1);
  return of_integers(context, indices, shape);
}

struct Groups {
  Tensor starts, order;
};

Groups group(const Tensor& indices, std::int64_t rows) {
  Groups groups{Tensor::empty(indices.context(), {rows + 1}, DType::int64),
                Tensor::empty(indices.context(), {indices.count()}, DType::int64)};
  kernels.group_positions(indices, groups.starts, groups.order);
  return groups;
}

// table[indices[position]] += x[position], position by position, rounded to `dtype` each time.
void add_rows(Values& table, const Values& x, const Integers& indices, std::int64_t width,
              DType dtype) {
  const auto columns = static_cast<std::size_t>(width);
  for (std::size_t position = 0; position < indices.size(); ++position) {
    for (std::size_t i = 0; i < columns; ++i) {
      double& sum = table[static_cast<std::size_t>(indices[position]) * columns + i];
      sum += x[position * columns + i];
      if (dtype == DType::float32) sum = double{static_cast<float>(sum)};
    }
  }
}

std::int64_t random_width(Random& random, int trial) {
  return trial % 10 == 0 ? random.integer(1025, 1300) : random.integer(1, 40);
}

TEST(Embedding, GathersRows) {
  const auto context = make_test_context(2);
  Random random(1);
  for (int trial = 0; trial < trials(200); ++trial) {
    const DType dtype = float_types[trial % 2];
    const std::int64_t rows = random.integer(1, 30), width = random_width(random, trial);
    const Shape shapes[] = {{}, {random.integer(0, 50)}, {random.integer(1, 9), 3}, {2, 1, 5}};
    const Shape shape = shapes[random.integer(0, 3)];
    const Tensor table = random_tensor(*context, random, {rows, width}, dtype);
    const Tensor indices = random_indices(*context, random, shape, rows);
    Integers extents(shape.extents().begin(), shape.extents().end());
    extents.push_back(width);
    const Tensor out =
        Tensor::empty(*context, Shape(std::span<const std::int64_t>(extents)), dtype);
    kernels.gather_rows(table, indices, out);

    const Values of_table = values_of(table);
    Values expected;
    for (const std::int64_t index : indices.to_vector<std::int64_t>()) {
      const auto row = of_table.begin() + index * width;
      expected.insert(expected.end(), row, row + width);
    }
    EXPECT_EQ(values_of(out), expected);
  }
}

TEST(Embedding, GroupsPositionsByRowInTheirOrder) {
  const auto context = make_test_context();
  const Groups groups = group(of_integers(*context, {3, 1, 3, 0, 1, 3}, {2, 3}), 5);
  EXPECT_EQ(groups.starts.to_vector<std::int64_t>(), (Integers{0, 1, 3, 3, 6, 6}));
  EXPECT_EQ(groups.order.to_vector<std::int64_t>(), (Integers{3, 1, 4, 0, 2, 5}));
  const Groups empty = group(of_integers(*context, {}, {0}), 2);
  EXPECT_EQ(empty.starts.to_vector<std::int64_t>(), (Integers{0, 0, 0}));
}

// More positions than a block of a GPU sorts, and rows whose numbers have one to three bytes.
TEST(Embedding, GroupsManyPositionsStably) {
  const auto context = make_test_context();
  Random random(4);
  for (const std::int64_t rows : {1, 200, 256, 257, 70'000}) {
    const std::int64_t positions = random.integer(4000, 5000);
    Integers of_position;
    for (std::int64_t i = 0; i < positions; ++i)
      of_position.push_back(i % 3 == 0 ? rows - 1 : random.integer(0, rows - 1));
    const Groups groups = group(of_integers(*context, of_position, {positions}), rows);
    Integers order(of_position.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return of_position[static_cast<std::size_t>(a)] < of_position[static_cast<std::size_t>(b)];
    });
    EXPECT_EQ(groups.order.to_vector<std::int64_t>(), order);
    Integers starts(static_cast<std::size_t>(rows) + 1);
    for (const std::int64_t row : of_position) ++starts[static_cast<std::size_t>(row) + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    EXPECT_EQ(groups.starts.to_vector<std::int64_t>(), starts);
  }
}

// To the bit: equal rows are added in the order of their positions. The blocks are random.
TEST(Embedding, SumsRowsInTheOrderOfPositionsBlockByBlock) {
  const auto context = make_test_context(2);
  Random random(2);
  for (int trial = 0; trial < trials(200); ++trial) {
    const DType dtype = float_types[trial % 2];
    const bool accumulate = trial % 3 == 0;
    const std::int64_t rows = random.integer(1, 30), width = random_width(random, trial),
                       positions = random.integer(0, 100);
    const Tensor x = random_tensor(*context, random, {positions, width}, dtype);
    const Tensor indices = random_indices(*context, random, {positions}, rows);
    const Tensor out = random_tensor(*context, random, {rows, width}, dtype);
    Values expected = values_of(out);
    if (!accumulate) expected.assign(expected.size(), 0);
    add_rows(expected, values_of(x), indices.to_vector<std::int64_t>(), width, dtype);

    const Groups groups = group(indices, rows);
    for (std::int64_t begin = 0; begin < rows;) {
      const std::int64_t end = random.integer(begin + 1, rows);
      kernels.sum_row_groups(x, groups.starts.slice(0, begin, end + 1), groups.order,
                             out.slice(0, begin, end), accumulate);
      begin = end;
    }
    EXPECT_EQ(values_of(out), expected);
  }
}

TEST(Embedding, SameBitsForAnyThreadCount) {
  Values previous;
  for (const int threads : {1, 2, 4}) {
    const auto context = make_test_context(threads);
    Random random(3);
    const Tensor x = random_tensor(*context, random, {3000, 70}, DType::float32);
    const Tensor indices = random_indices(*context, random, {3000}, 1000);
    const Tensor out = Tensor::empty(*context, {1000, 70});
    const Groups groups = group(indices, 1000);
    kernels.sum_row_groups(x, groups.starts, groups.order, out, false);
    if (!previous.empty()) {
      EXPECT_EQ(values_of(out), previous);
    }
    previous = values_of(out);
  }
}

template <class Call>
void expect_usage_error(Call&& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "expected a UsageError that says " << part;
  } catch (const UsageError& error) {
    EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr(part));
  }
}

TEST(Embedding, BadIndicesNamePositionValueAndRange) {
  const auto context = make_test_context();
  const Tensor table = Tensor::empty(*context, {10, 4}), out = Tensor::empty(*context, {2, 2, 4});
  for (const std::int64_t bad :
       {std::int64_t{10}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max(),
        std::numeric_limits<std::int64_t>::min()}) {
    const Tensor indices = of_integers(*context, {9, 0, bad, bad}, {2, 2});
    const std::string message =
        "the index at position 2 is " + std::to_string(bad) + ", expected one in [0, 10)";
    expect_usage_error(
        [&] {
          kernels.gather_rows(table, indices, out);
          kernels.throw_noted_error(*context);
        },
        message);
    expect_usage_error(
        [&] {
          group(indices, 10);
          kernels.throw_noted_error(*context);
        },
        message);
    EXPECT_NO_THROW(kernels.throw_noted_error(*context));
  }
}

TEST(Embedding, OperandsThatDoNotFitAreRefused) {
  const auto context = make_test_context();
  const auto floats = [&](const Shape& shape) { return Tensor::empty(*context, shape); };
  const auto integers = [&](const Shape& shape) {
    return Tensor::empty(*context, shape, DType::int64);
  };
  expect_usage_error(
      [&] {
        kernels.gather_rows(floats({3, 2}), floats({4}), floats({4, 2}));
      },
      "indices has dtype float32, expected int64");
  expect_usage_error(
      [&] {
        kernels.gather_rows(floats({3, 2}), integers({4}), floats({4, 3}));
      },
      "out has shape [4, 3], expected [4, 2]");
  expect_usage_error(
      [&] {
        kernels.gather_rows(floats({3}), integers({4}), floats({4, 3}));
      },
      "table has shape [3]");
  expect_usage_error([&] { kernels.group_positions(integers({4}), integers({3}), integers({5})); },
                     "order has shape [5], expected [4]");
  expect_usage_error(
      [&] {
        kernels.sum_row_groups(floats({4, 2}), integers({3}), integers({4}), floats({3, 2}), false);
      },
      "starts has shape [3], expected [4]");
  expect_usage_error(
      [&] {
        kernels.sum_row_groups(floats({5, 2}), integers({4}), integers({4}), floats({3, 2}), false);
      },
      "x has shape [5, 2], expected [4, 2]");
}

}  // namespace
}  // namespace lockstep::kernels::testing

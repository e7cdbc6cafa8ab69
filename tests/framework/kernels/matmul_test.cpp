#include <limits>

#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();

Values reference_product(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) {
  const Values a_values = values_of(a), b_values = values_of(b);
  Values c_values = values_of(c);
  const std::int64_t k = a.shape().back();
  std::size_t at = 0;
  for_each_index(c.shape(), [&](const Index& index) {
    Index a_index = index, b_index = index;
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      a_index.back() = i;
      b_index[b_index.size() - 2] = i;
      sum += a_values[broadcast_position(a_index, a.shape())] *
             b_values[broadcast_position(b_index, b.shape())];
    }
    c_values[at] = sum + (accumulate ? c_values[at] : 0);
    ++at;
  });
  return c_values;
}

TEST(Matmul, RandomBatchesShapesAndLayouts) {
  const auto context = make_test_context(2);
  Random random(1);
  for (int trial = 0; trial < trials(800); ++trial) {
    const DType dtype = float_types[trial % 2];
    const bool accumulate = trial % 3 == 0;
    const std::int64_t m = random.integer(1, 12), k = random.integer(trial % 17 == 0 ? 0 : 1, 20),
                       n = random.integer(1, 12);
    const Shape batch =
        random.integer(0, 1) == 0 ? Shape{} : Shape{random.integer(1, 3), random.integer(1, 4)};
    const auto with = [](const Shape& leading, std::int64_t rows, std::int64_t columns) {
      Index extents(leading.extents().begin(), leading.extents().end());
      extents.insert(extents.end(), {rows, columns});
      return Shape(extents);
    };
    const Tensor a = random_tensor(*context, random, with(random.broadcastable(batch), m, k), dtype,
                                   random.layout(false));
    const Tensor b = random_tensor(*context, random, with(random.broadcastable(batch), k, n), dtype,
                                   random.layout(false));
    const auto leading = [](const Tensor& t) {
      return Shape(t.shape().extents().first(static_cast<std::size_t>(t.rank() - 2)));
    };
    const Tensor c =
        random_tensor(*context, random, with(base::broadcast(leading(a), leading(b)), m, n), dtype,
                      random.layout(true));
    const Values expected = reference_product(a, b, c, accumulate);
    kernels.matmul(a, b, c, accumulate);
    SCOPED_TRACE(base::to_string(a.shape()) + " * " + base::to_string(b.shape()));
    expect_close(c, expected, tolerance(dtype, 80));
  }
}

// Whole numbers: every order of summation is exact, so any lost or doubled tile shows.
TEST(Matmul, ManyTilesAreExactForWholeNumbers) {
  const auto context = make_test_context(3);
  for (const auto& [m, k, n] :
       {std::tuple{300, 65, 1100}, {1, 400, 2000}, {700, 3, 1}, {129, 129, 513}}) {
    for (const bool transposed_a : {false, true}) {
      for (const bool transposed_b : {false, true}) {
        const auto make = [&](std::int64_t rows, std::int64_t columns, bool transposed) {
          const Tensor t =
              Tensor::empty(*context, transposed ? Shape{columns, rows} : Shape{rows, columns});
          Values values(static_cast<std::size_t>(t.count()));
          int next = 0;
          for (double& v : values) v = (next += 7) % 13 - 6;
          assign(t, values);
          return transposed ? t.transpose(0, 1) : t;
        };
        const Tensor a = make(m, k, transposed_a), b = make(k, n, transposed_b);
        const Tensor c = Tensor::empty(*context, {m, n});
        kernels.fill(std::numeric_limits<double>::quiet_NaN(), c);
        kernels.matmul(a, b, c, false);
        const Values a_values = values_of(a), b_values = values_of(b);
        Values expected(static_cast<std::size_t>(m * n));
        for (std::size_t i = 0; i < static_cast<std::size_t>(m); ++i) {
          for (std::size_t j = 0; j < static_cast<std::size_t>(k); ++j) {
            for (std::size_t l = 0; l < static_cast<std::size_t>(n); ++l) {
              expected[i * static_cast<std::size_t>(n) + l] +=
                  a_values[i * static_cast<std::size_t>(k) + j] *
                  b_values[j * static_cast<std::size_t>(n) + l];
            }
          }
        }
        EXPECT_EQ(values_of(c), expected);
      }
    }
  }
}

TEST(Matmul, MistakesAreNamed) {
  const auto context = make_test_context();
  const auto tensor = [&](const Shape& shape) { return Tensor::empty(*context, shape); };
  EXPECT_THROW(kernels.matmul(tensor({3, 4}), tensor({5, 6}), tensor({3, 6}), false), UsageError);
  EXPECT_THROW(kernels.matmul(tensor({3, 4}), tensor({4, 6}), tensor({3, 5}), false), UsageError);
  EXPECT_THROW(kernels.matmul(tensor({2, 3, 4}), tensor({4, 6}), tensor({3, 6}), false),
               UsageError);
  EXPECT_THROW(kernels.matmul(tensor({4}), tensor({4, 6}), tensor({1, 6}), false), UsageError);
}

}  // namespace
}  // namespace lockstep::kernels::testing

#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();

TEST(Dropout, TheMaskIsTheStreamsWordForWord) {
  const auto context = make_test_context(2);
  Random random(1);
  const base::RandomStream stream(7, "dropout:test", 3);
  for (int trial = 0; trial < trials(200); ++trial) {
    const DType dtype = float_types[trial % 2];
    const bool accumulate = trial % 3 == 0;
    const Shape shape = random.shape();
    const double p = random.uniform(0, 0.95);
    const std::int64_t first_row = random.integer(0, 1) * 5'000'000'000;
    const Tensor x = random_tensor(*context, random, shape, dtype, random.layout(false));
    const Tensor y = random_tensor(*context, random, shape, dtype);
    Values expected = values_of(y);
    const Values x_values = values_of(x);
    const auto width =
        static_cast<std::size_t>(shape.rank() == 0 || shape[0] == 0 ? 1 : shape.count() / shape[0]);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t row = i / width, column = i % width;
      const auto words = stream.block(static_cast<std::uint64_t>(first_row) + row, column / 4);
      const bool keep = static_cast<double>(base::uniform_from_bits(words[column % 4])) >= p;
      expected[i] = (accumulate ? expected[i] : 0) + (keep ? x_values[i] / (1 - p) : 0);
    }
    kernels.dropout(x, p, stream, first_row, y, accumulate);
    expect_close(y, expected, tolerance(dtype));
  }
}

TEST(Dropout, KeepsTheExpectedShareAndTheMean) {
  const auto context = make_test_context();
  const Tensor x = Tensor::empty(*context, {100, 1001}), y = Tensor::empty(*context, {100, 1001});
  kernels.fill(1, x);
  kernels.dropout(x, 0.3, base::RandomStream(1, "dropout:a"), 0, y, false);
  double kept = 0, sum = 0;
  for (const float v : y.to_vector<float>()) {
    kept += v != 0;
    sum += static_cast<double>(v);
  }
  EXPECT_NEAR(kept / 100100, 0.7, 0.006);  // four standard deviations
  EXPECT_NEAR(sum / 100100, 1, 0.009);
}

TEST(Dropout, ARowDoesNotDependOnTheSharding) {
  const auto context = make_test_context();
  Random random(2);
  const base::RandomStream stream(1, "dropout:a");
  const Tensor x = random_tensor(*context, random, {9, 70}, DType::float32);
  const Tensor whole = Tensor::empty(*context, {9, 70}), parts = Tensor::empty(*context, {9, 70});
  kernels.dropout(x, 0.5, stream, 100, whole, false);
  kernels.dropout(x.slice(0, 0, 4), 0.5, stream, 100, parts.slice(0, 0, 4), false);
  kernels.dropout(x.slice(0, 4, 9), 0.5, stream, 104, parts.slice(0, 4, 9), false);
  expect_same_bits(whole, parts);
}

TEST(Dropout, ProbabilityZeroKeepsEverything) {
  const auto context = make_test_context();
  Random random(3);
  const Tensor x = random_tensor(*context, random, {70000}, DType::float32),
               y = Tensor::empty(*context, {70000});
  kernels.dropout(x, 0, base::RandomStream(1, "dropout:a"), 0, y, false);
  expect_same_bits(x, y);
}

}  // namespace
}  // namespace lockstep::kernels::testing

#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();
constexpr double epsilon = 1e-5, momentum = 0.1;

struct Columns {
  Values mean, variance;  // biased
};

Columns columns_of(const Values& x, std::size_t rows, std::size_t features) {
  Columns columns{Values(features), Values(features)};
  for (std::size_t f = 0; f < features; ++f) {
    for (std::size_t r = 0; r < rows; ++r) columns.mean[f] += x[r * features + f];
    columns.mean[f] /= static_cast<double>(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      const double difference = x[r * features + f] - columns.mean[f];
      columns.variance[f] += difference * difference;
    }
    columns.variance[f] /= static_cast<double>(rows);
  }
  return columns;
}

// One batch normalisation and its inputs.
struct Case {
  Case(Context& context, Random& random, std::int64_t rows, std::int64_t features, DType dtype,
       double low = -2, double high = 2)
      : x(random_tensor(context, random, {rows, features}, dtype, Layout::contiguous, low, high)),
        weight(random_tensor(context, random, {features}, dtype)),
        bias(random_tensor(context, random, {features}, dtype)),
        running_mean(random_tensor(context, random, {features}, dtype)),
        running_variance(
            random_tensor(context, random, {features}, dtype, Layout::contiguous, 0.5, 2)),
        mean(Tensor::empty(context, {features}, dtype)),
        inverse(Tensor::empty(context, {features}, dtype)),
        y(Tensor::empty(context, {rows, features}, dtype)) {}

  void forward() const {
    kernels.batch_norm(x, weight, bias, epsilon, momentum, running_mean, running_variance, mean,
                       inverse, y);
  }

  Tensor x, weight, bias, running_mean, running_variance, mean, inverse, y;
};

TEST(BatchNorm, ForwardAndRunningStatisticsOfRandomShapes) {
  const auto context = make_test_context(2);
  Random random(1);
  for (int trial = 0; trial < trials(60); ++trial) {
    const DType dtype = float_types[trial % 2];
    const std::int64_t rows = random.integer(2, 70), features = random.integer(1, 300);
    const Case c(*context, random, rows, features, dtype);
    const auto n = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(features);
    const Values x = values_of(c.x), w = values_of(c.weight), b = values_of(c.bias);
    const Columns columns = columns_of(x, n, width);
    Values mean = values_of(c.running_mean), variance = values_of(c.running_variance);
    const Values given_mean = mean, given_variance = variance;
    Values y(x.size()), inferred(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t f = i % width;
      y[i] = (x[i] - columns.mean[f]) / std::sqrt(columns.variance[f] + epsilon) * w[f] + b[f];
      inferred[i] = (x[i] - given_mean[f]) / std::sqrt(given_variance[f] + epsilon) * w[f] + b[f];
    }
    for (std::size_t f = 0; f < width; ++f) {
      const auto count = static_cast<double>(n);
      mean[f] = 0.9 * mean[f] + 0.1 * columns.mean[f];
      variance[f] = 0.9 * variance[f] + 0.1 * columns.variance[f] * count / (count - 1);
    }
    kernels.batch_norm_inference(c.x, c.weight, c.bias, epsilon, c.running_mean, c.running_variance,
                                 c.inverse, c.y);
    expect_close(c.y, inferred, tolerance(dtype, 16));
    c.forward();
    // With few rows a deviation may be small, and what it divides rounds accordingly.
    expect_close(c.y, y, tolerance(dtype, 2000));
    expect_close(c.running_mean, mean, tolerance(dtype));
    expect_close(c.running_variance, variance, tolerance(dtype));
  }
}

TEST(BatchNorm, BackwardOfRandomShapes) {
  const auto context = make_test_context(2);
  Random random(2);
  for (int trial = 0; trial < trials(60); ++trial) {
    const DType dtype = float_types[trial % 2];
    const bool accumulate = trial % 3 == 0, of_batch = trial % 4 != 3;
    const std::int64_t rows = random.integer(8, 70), features = random.integer(1, 300);
    const Case c(*context, random, rows, features, dtype);
    c.forward();
    const auto n = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(features);
    const Tensor grad_y = random_tensor(*context, random, {rows, features}, dtype);
    const Tensor grad_x = random_tensor(*context, random, {rows, features}, dtype);
    const Tensor grad_weight = Tensor::empty(*context, {features}, dtype);
    const Tensor grad_bias = Tensor::empty(*context, {features}, dtype);
    const Values x = values_of(c.x), g = values_of(grad_y), w = values_of(c.weight);
    const Columns columns = columns_of(x, n, width);
    Values weight(width), bias(width), expected = values_of(grad_x);
    const auto normalized = [&](std::size_t i) {
      return (x[i] - columns.mean[i % width]) / std::sqrt(columns.variance[i % width] + epsilon);
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
      weight[i % width] += g[i] * normalized(i);
      bias[i % width] += g[i];
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t f = i % width;
      const auto count = static_cast<double>(n);
      double inner = g[i];
      if (of_batch) inner -= (bias[f] + normalized(i) * weight[f]) / count;
      expected[i] =
          (accumulate ? expected[i] : 0) + w[f] / std::sqrt(columns.variance[f] + epsilon) * inner;
    }
    kernels.batch_norm_parameter_gradients(c.x, c.mean, c.inverse, grad_y, grad_weight, grad_bias);
    kernels.batch_norm_input_gradient(c.x, c.weight, c.mean, c.inverse, grad_y,
                                      of_batch ? grad_weight : Tensor(),
                                      of_batch ? grad_bias : Tensor(), grad_x, accumulate);
    expect_close(grad_weight, weight, tolerance(dtype, 400));
    expect_close(grad_bias, bias, tolerance(dtype, 40));
    expect_close(grad_x, expected, tolerance(dtype, 400));
  }
}

// Sums of squares would have nothing left of the deviation here.
TEST(BatchNorm, SmallDeviationsAroundALargeMeanAreKept) {
  const auto context = make_test_context();
  Random random(3);
  const Case c(*context, random, 64, 5, DType::float64, 1e8, 1e8 + 1);
  c.forward();
  const Columns columns = columns_of(values_of(c.x), 64, 5);
  Values inverse;
  for (const double variance : columns.variance) {
    EXPECT_GT(variance, 0.02);
    inverse.push_back(1 / std::sqrt(variance + epsilon));
  }
  expect_close(c.inverse, inverse, 1e-9);
}

TEST(BatchNorm, ResultsDoNotDependOnTheThreads) {
  const auto run = [](int threads) {
    const auto context = make_test_context(threads);
    Random random(4);
    const Case c(*context, random, 37, 1000, DType::float32);
    c.forward();
    const Tensor grad_weight = Tensor::empty(*context, {1000}),
                 grad_bias = Tensor::empty(*context, {1000});
    kernels.batch_norm_parameter_gradients(c.x, c.mean, c.inverse, c.y, grad_weight, grad_bias);
    kernels.batch_norm_input_gradient(c.x, c.weight, c.mean, c.inverse, c.y, grad_weight, grad_bias,
                                      c.y, false);
    return values_of(c.y);
  };
  EXPECT_EQ(run(1), run(3));
}

TEST(BatchNorm, OperandsAreChecked) {
  const auto context = make_test_context();
  Random random(5);
  const Case one(*context, random, 1, 3, DType::float32);
  EXPECT_THROW(one.forward(), UsageError);
  Case wrong(*context, random, 4, 3, DType::float32);
  wrong.bias = Tensor::empty(*context, {4});
  EXPECT_THROW(wrong.forward(), UsageError);
}

}  // namespace
}  // namespace lockstep::kernels::testing

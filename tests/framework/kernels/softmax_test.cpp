#include <limits>

#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();

// log-softmax of each row of `row` elements.
Values reference_log_softmax(const Values& x, std::size_t row) {
  Values y(x.size());
  for (std::size_t start = 0; start < x.size(); start += row) {
    double largest = x[start], sum = 0;
    for (std::size_t i = 0; i < row; ++i) largest = std::max(largest, x[start + i]);
    for (std::size_t i = 0; i < row; ++i) sum += std::exp(x[start + i] - largest);
    for (std::size_t i = 0; i < row; ++i) y[start + i] = x[start + i] - largest - std::log(sum);
  }
  return y;
}

TEST(Softmax, ForwardAndBackwardOfRandomShapes) {
  const auto context = make_test_context(2);
  Random random(1);
  for (int trial = 0; trial < trials(400); ++trial) {
    const DType dtype = float_types[trial % 2];
    const bool accumulate = trial % 3 == 0;
    const Shape shape = random.shape(1);
    const auto row = static_cast<std::size_t>(shape.back());
    const Tensor x = random_tensor(*context, random, shape, dtype, random.layout(false), -9, 9);
    const Tensor soft = Tensor::empty(*context, shape, dtype),
                 log_soft = Tensor::empty(*context, shape, dtype);
    kernels.softmax(x, soft);
    kernels.log_softmax(x, log_soft);
    const Values log_expected = reference_log_softmax(values_of(x), row);
    Values expected = log_expected;
    for (double& v : expected) v = std::exp(v);
    expect_close(log_soft, log_expected, tolerance(dtype, 16));
    expect_close(soft, expected, tolerance(dtype, 8));

    const Tensor grad_y = random_tensor(*context, random, shape, dtype, random.layout(false));
    const Tensor grad_soft = random_tensor(*context, random, shape, dtype);
    const Tensor grad_log = random_tensor(*context, random, shape, dtype);
    const Values g = values_of(grad_y);
    Values soft_expected = values_of(grad_soft), log_grad_expected = values_of(grad_log);
    for (std::size_t start = 0; start < g.size(); start += row) {
      double dot = 0, sum = 0;
      for (std::size_t i = start; i < start + row; ++i) {
        dot += g[i] * expected[i];
        sum += g[i];
      }
      for (std::size_t i = start; i < start + row; ++i) {
        soft_expected[i] = (accumulate ? soft_expected[i] : 0) + expected[i] * (g[i] - dot);
        log_grad_expected[i] = (accumulate ? log_grad_expected[i] : 0) + g[i] - expected[i] * sum;
      }
    }
    kernels.softmax_backward(soft, grad_y, grad_soft, accumulate);
    kernels.log_softmax_backward(log_soft, grad_y, grad_log, accumulate);
    expect_close(grad_soft, soft_expected, tolerance(dtype, 40));
    expect_close(grad_log, log_grad_expected, tolerance(dtype, 200));
  }
}

TEST(Softmax, LargeLogitsDoNotOverflow) {
  const auto context = make_test_context();
  const Tensor x = Tensor::from(*context, {1e30f, 1e30f, -1e30f, 88.0f}, {1, 4});
  const Tensor y = Tensor::empty(*context, {1, 4});
  kernels.softmax(x, y);
  expect_close(y, {0.5, 0.5, 0, 0}, 0);
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor masked = Tensor::from(*context, {-infinity, 0.0f, -infinity, 0.0f}, {1, 4});
  kernels.softmax(masked, y);
  expect_close(y, {0, 0.5, 0, 0.5}, 0);
}

TEST(Softmax, NanSpoilsItsRowOnly) {
  const auto context = make_test_context();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from(*context, {0.0f, nan, 1.0f, 2.0f, 2.0f, 2.0f}, {2, 3});
  const Tensor y = Tensor::empty(*context, {2, 3});
  kernels.softmax(x, y);
  const Values values = values_of(y);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(values[i]));
  for (std::size_t i = 3; i < 6; ++i) EXPECT_NEAR(values[i], 1.0 / 3, 1e-7);
}

}  // namespace
}  // namespace lockstep::kernels::testing

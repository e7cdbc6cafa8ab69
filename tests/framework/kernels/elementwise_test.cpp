#include <cmath>
#include <limits>

#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

struct UnaryCase {
  Unary op;
  const char* name;
  double (*f)(double);
  double (*derivative)(double);
  double low, high;
};

double phi(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

const UnaryCase unary_cases[] = {
    {Unary::negate, "negate", [](double x) { return -x; }, [](double) { return -1.0; }, -3, 3},
    {Unary::relu, "relu", [](double x) { return x > 0 ? x : 0; },
     [](double x) { return x > 0 ? 1.0 : 0.0; }, -3, 3},
    {Unary::gelu, "gelu", [](double x) { return x * phi(x); },
     [](double x) { return phi(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }, -6, 6},
    {Unary::gelu_tanh, "gelu_tanh", gelu_tanh, gelu_tanh_derivative, -6, 6},
    {Unary::tanh, "tanh", [](double x) { return std::tanh(x); },
     [](double x) { return 1 - std::tanh(x) * std::tanh(x); }, -5, 5},
    {Unary::sigmoid, "sigmoid", sigmoid, [](double x) { return sigmoid(x) * (1 - sigmoid(x)); }, -8,
     8},
    {Unary::exp, "exp", [](double x) { return std::exp(x); }, [](double x) { return std::exp(x); },
     -4, 4},
    {Unary::log, "log", [](double x) { return std::log(x); }, [](double x) { return 1 / x; }, 0.1,
     9},
    {Unary::sqrt, "sqrt", [](double x) { return std::sqrt(x); },
     [](double x) { return 0.5 / std::sqrt(x); }, 0.1, 9},
    {Unary::square, "square", [](double x) { return x * x; }, [](double x) { return 2 * x; }, -3,
     3},
};

const Kernels& kernels = kernels_under_test();

Values broadcast_values(const Tensor& tensor, const Shape& shape) {
  const Values own = values_of(tensor);
  Values values;
  for_each_index(shape, [&](const Index& index) {
    values.push_back(own[broadcast_position(index, tensor.shape())]);
  });
  return values;
}

TEST(Elementwise, UnaryOfRandomShapesAndLayouts) {
  const auto context = make_test_context(2);
  Random random(1);
  for (const UnaryCase& c : unary_cases) {
    for (int trial = 0; trial < trials(60); ++trial) {
      const DType dtype = float_types[trial % 2];
      const Shape shape = random.shape();
      const Tensor x = random_tensor(*context, random, random.broadcastable(shape), dtype,
                                     random.layout(false), c.low, c.high);
      const Tensor y = random_tensor(*context, random, shape, dtype, random.layout(true));
      kernels.unary(c.op, x, y);
      Values expected = broadcast_values(x, shape);
      for (double& v : expected) v = c.f(v);
      SCOPED_TRACE(c.name);
      expect_close(y, expected, tolerance(dtype));
    }
  }
}

TEST(Elementwise, UnaryBackwardWritesOrAccumulates) {
  const auto context = make_test_context(2);
  Random random(2);
  for (const UnaryCase& c : unary_cases) {
    for (int trial = 0; trial < trials(60); ++trial) {
      const DType dtype = float_types[trial % 2];
      const bool accumulate = trial % 3 == 0;
      const Shape shape = random.shape();
      const Tensor x =
          random_tensor(*context, random, shape, dtype, random.layout(false), c.low, c.high);
      const Tensor y = random_tensor(*context, random, shape, dtype, random.layout(true));
      kernels.unary(c.op, x, y);
      const Tensor grad_y = random_tensor(*context, random, shape, dtype, random.layout(false));
      const Tensor grad_x = random_tensor(*context, random, shape, dtype, random.layout(true));
      const Values x_values = values_of(x), g = values_of(grad_y);
      Values expected = values_of(grad_x);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = (accumulate ? expected[i] : 0) + g[i] * c.derivative(x_values[i]);
      }
      kernels.unary_backward(c.op, x, y, grad_y, grad_x, accumulate);
      SCOPED_TRACE(c.name);
      expect_close(grad_x, expected, tolerance(dtype, 16));
    }
  }
}

TEST(Elementwise, UnaryBackwardInPlaceOfTheGradient) {
  const auto context = make_test_context();
  Random random(3);
  const Tensor x =
      random_tensor(*context, random, {5, 67}, DType::float32, Layout::contiguous, 0.5, 2);
  const Tensor y = Tensor::empty(*context, {5, 67}), separate = Tensor::empty(*context, {5, 67});
  for (const UnaryCase& c : unary_cases) {
    kernels.unary(c.op, x, y);
    const Tensor grad = random_tensor(*context, random, {5, 67}, DType::float32);
    kernels.unary_backward(c.op, x, y, grad, separate, false);
    kernels.unary_backward(c.op, x, y, grad, grad, false);
    expect_same_bits(grad, separate);
  }
}

TEST(Elementwise, BinaryBroadcastsBothOperands) {
  const auto context = make_test_context(2);
  Random random(4);
  const std::pair<Binary, double (*)(double, double)> cases[] = {
      {Binary::add, [](double a, double b) { return a + b; }},
      {Binary::subtract, [](double a, double b) { return a - b; }},
      {Binary::multiply, [](double a, double b) { return a * b; }},
      {Binary::divide, [](double a, double b) { return a / b; }},
  };
  for (const auto& [op, f] : cases) {
    for (int trial = 0; trial < trials(200); ++trial) {
      const DType dtype = float_types[trial % 2];
      const Shape shape = random.shape();
      const Tensor a =
          random_tensor(*context, random, random.broadcastable(shape), dtype, random.layout(false));
      const Tensor b = random_tensor(*context, random, random.broadcastable(shape), dtype,
                                     random.layout(false), 0.5, 2);
      const Tensor out = random_tensor(*context, random, shape, dtype, random.layout(true));
      kernels.binary(op, a, b, out);
      Values expected = broadcast_values(a, shape);
      const Values right = broadcast_values(b, shape);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = f(expected[i], right[i]);
      expect_close(out, expected, tolerance(dtype, 1), 0);
    }
  }
}

TEST(Elementwise, AxpbyDoesNotReadTheOutputWhenBetaIsZero) {
  const auto context = make_test_context();
  Random random(5);
  for (const DType dtype : float_types) {
    const Tensor x = random_tensor(*context, random, {7, 9}, dtype, Layout::permuted);
    const Tensor out = Tensor::empty(*context, {7, 9}, dtype);
    kernels.fill(std::numeric_limits<double>::quiet_NaN(), out);
    kernels.axpby(0.5, x, 0, out);
    Values expected = values_of(x);
    for (double& v : expected) v *= 0.5;
    expect_close(out, expected, 0);
    kernels.axpby(2, x, -3, out);
    const Values x_values = values_of(x);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = 2 * x_values[i] - 3 * expected[i];
    expect_close(out, expected, tolerance(dtype));
  }
}

TEST(Elementwise, NanPassesThroughRelu) {
  const auto context = make_test_context();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from(*context, {nan, -1.0f, 2.0f}, {3}),
               y = Tensor::empty(*context, {3});
  kernels.unary(Unary::relu, x, y);
  const std::vector<float> values = y.to_vector<float>();
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[2], 2);
}

// However large the cube in it gets.
TEST(Elementwise, GeluByTanhHasTheLimitsOfGelu) {
  const auto context = make_test_context();
  for (const DType dtype : float_types) {
    const double infinity = std::numeric_limits<double>::infinity();
    const double huge = dtype == DType::float32 ? 3e38 : 1e308;
    const Values points = {-infinity, -huge, -1e15, -25, -0.0, 0, 25, 1e15, infinity, std::nan("")};
    const Tensor x = Tensor::empty(*context, {10}, dtype), y = Tensor::empty(*context, {10}, dtype),
                 grad_y = Tensor::empty(*context, {10}, dtype);
    assign(x, points);
    kernels.fill(2, grad_y);
    kernels.unary(Unary::gelu_tanh, x, y);
    const Values stored = values_of(x), values = values_of(y);
    EXPECT_EQ(Values(values.begin(), values.begin() + 6), Values(6));
    EXPECT_EQ(Values(values.begin() + 6, values.end() - 1),
              Values(stored.begin() + 6, stored.end() - 1));
    EXPECT_TRUE(std::isnan(values.back()));
    const Tensor grad_x = Tensor::empty(*context, {10}, dtype);
    kernels.unary_backward(Unary::gelu_tanh, x, {}, grad_y, grad_x, false);
    const Values gradients = values_of(grad_x);
    EXPECT_EQ(Values(gradients.begin(), gradients.end() - 1), Values({0, 0, 0, 0, 1, 1, 2, 2, 2}));
    EXPECT_TRUE(std::isnan(gradients.back()));
  }
}

TEST(Elementwise, WritesNothingOutsideAView) {
  const auto context = make_test_context();
  const Tensor whole = Tensor::empty(*context, {9, 40});
  kernels.fill(7, whole);
  kernels.fill(1, whole.slice(0, 2, 6).slice(1, 3, 30));
  const auto values = whole.to_vector<float>();
  for (std::int64_t row = 0; row < 9; ++row) {
    for (std::int64_t column = 0; column < 40; ++column) {
      const bool inside = row >= 2 && row < 6 && column >= 3 && column < 30;
      EXPECT_EQ(values[static_cast<std::size_t>(row * 40 + column)], inside ? 1 : 7);
    }
  }
}

TEST(Elementwise, MistakesAreNamed) {
  const auto context = make_test_context();
  const Tensor a = Tensor::empty(*context, {3, 4}), out = Tensor::empty(*context, {3, 5});
  EXPECT_THROW(kernels.unary(Unary::relu, a, out), UsageError);
  EXPECT_THROW(kernels.binary(Binary::add, out, a, out), UsageError);
  EXPECT_THROW(kernels.unary(Unary::relu, Tensor::empty(*context, {3, 5}, DType::float64), out),
               UsageError);
  const Tensor integers = Tensor::empty(*context, {2}, DType::int32);
  EXPECT_THROW(kernels.unary(Unary::relu, integers, integers), UsageError);
}

}  // namespace
}  // namespace lockstep::kernels::testing

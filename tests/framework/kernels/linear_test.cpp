#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();

double apply(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::gelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
  }
  return 0;
}

double derivative(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return 1;
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::gelu:
      return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    case Activation::gelu_tanh:
      return gelu_tanh_derivative(x);
    case Activation::tanh:
      return 1 - apply(activation, x) * apply(activation, x);
    case Activation::sigmoid:
      return apply(activation, x) * (1 - apply(activation, x));
  }
  return 0;
}

constexpr Activation activations[] = {Activation::none,      Activation::relu, Activation::gelu,
                                      Activation::gelu_tanh, Activation::tanh, Activation::sigmoid};

TEST(Linear, MatchesTheFormula) {
  const auto context = make_test_context(2);
  Random random(1);
  for (int trial = 0; trial < trials(300); ++trial) {
    const DType dtype = float_types[trial % 2];
    const Activation activation = activations[random.integer(0, 5)];
    const std::int64_t m = random.integer(trial % 20 == 0 ? 0 : 1, 40),
                       k = random.integer(trial % 21 == 0 ? 0 : 1, 30);
    const std::int64_t n = random.integer(1, trial % 25 == 0 ? 700 : 40);
    const Tensor x = random_tensor(*context, random, {m, k}, dtype, random.layout(false), -1, 1);
    const Tensor w = random_tensor(*context, random, {n, k}, dtype, random.layout(false), -1, 1);
    const Tensor bias =
        random.integer(0, 2) > 0 ? random_tensor(*context, random, {n}, dtype) : Tensor{};
    const bool keep = random.integer(0, 1) > 0;
    const Tensor y = Tensor::empty(*context, {m, n}, dtype);
    const ActivationRecord record = kernels.linear(x, w, bias, activation, keep, y);

    const Values x_values = values_of(x), w_values = values_of(w);
    const Values bias_values =
        bias.defined() ? values_of(bias) : Values(static_cast<std::size_t>(n));
    Values before, after;
    for (std::size_t i = 0; i < static_cast<std::size_t>(m); ++i) {
      for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
        double sum = bias_values[j];
        for (std::size_t l = 0; l < static_cast<std::size_t>(k); ++l) {
          sum += x_values[i * static_cast<std::size_t>(k) + l] *
                 w_values[j * static_cast<std::size_t>(k) + l];
        }
        before.push_back(sum);
        after.push_back(apply(activation, sum));
      }
    }
    const bool from_input = gradient_from(activation) == GradientFrom::input;
    EXPECT_EQ(record.activation, keep ? activation : Activation::none);
    EXPECT_EQ(record.pre.defined(), keep && from_input);
    if (record.pre.defined()) expect_close(record.pre, before, tolerance(dtype, 40));
    expect_close(y, after, tolerance(dtype, 60));
  }
}

TEST(Linear, BackwardOfBiasAndActivation) {
  const auto context = make_test_context(2);
  Random random(2);
  for (int trial = 0; trial < trials(300); ++trial) {
    const DType dtype = float_types[trial % 2];
    const Activation activation = activations[random.integer(0, 5)];
    const std::int64_t m = random.integer(trial % 20 == 0 ? 0 : 1, 90),
                       n = random.integer(1, trial % 10 == 0 ? 400 : 40);
    const Tensor pre = random_tensor(*context, random, {m, n}, dtype);
    const Tensor y = Tensor::empty(*context, {m, n}, dtype);
    Values after = values_of(pre);
    for (double& v : after) v = apply(activation, v);
    assign(y, after);
    const Tensor grad_y = random_tensor(*context, random, {m, n}, dtype, random.layout(false));
    const bool in_place = grad_y.is_contiguous() && random.integer(0, 1) == 0;
    const Tensor grad_pre = in_place ? grad_y : Tensor::empty(*context, {m, n}, dtype);
    const Tensor grad_bias =
        random.integer(0, 3) > 0 ? random_tensor(*context, random, {n}, dtype) : Tensor{};
    const bool accumulate = random.integer(0, 1) == 0;

    const Values pre_values = values_of(pre), g = values_of(grad_y);
    Values expected(g.size());
    Values sums(static_cast<std::size_t>(n));
    if (accumulate && grad_bias.defined()) sums = values_of(grad_bias);
    for (std::size_t i = 0; i < g.size(); ++i) {
      expected[i] = g[i] * derivative(activation, pre_values[i]);
      sums[i % static_cast<std::size_t>(n)] += expected[i];
    }
    const bool from_input = gradient_from(activation) == GradientFrom::input;
    kernels.bias_activation_backward(
        {activation, from_input ? Tensor{} : y, from_input ? pre : Tensor{}}, grad_y, grad_pre,
        grad_bias, accumulate);
    expect_close(grad_pre, expected, tolerance(dtype, 16));
    if (grad_bias.defined()) expect_close(grad_bias, sums, tolerance(dtype, 300));
  }
}

// As autograd calls them: with what linear() kept, on extents that epilogues take and others.
TEST(Linear, GradientsOfTheWeightAndTheInput) {
  const auto context = make_test_context(2);
  Random random(4);
  for (int trial = 0; trial < trials(200); ++trial) {
    const DType dtype = float_types[trial % 2];
    const Activation activation = activations[random.integer(0, 5)];
    const std::int64_t rows = random.integer(trial % 20 == 0 ? 0 : 1, 40),
                       out = random.integer(trial % 21 == 0 ? 0 : 1, 30),
                       in = trial % 3 == 0 ? 8 * random.integer(1, 40) : random.integer(1, 300);
    // x = f(z), the result of the layer below.
    const Tensor z = random_tensor(*context, random, {rows, 5}, dtype),
                 v = random_tensor(*context, random, {in, 5}, dtype),
                 shift = random.integer(0, 1) > 0 ? random_tensor(*context, random, {in}, dtype)
                                                  : Tensor{};
    const Tensor x = Tensor::empty(*context, {rows, in}, dtype),
                 before = Tensor::empty(*context, {rows, in}, dtype);
    const ActivationRecord below = kernels.linear(z, v, shift, activation, true, x);
    kernels.linear(z, v, shift, Activation::none, false, before);
    const Tensor w = random_tensor(*context, random, {out, in}, dtype),
                 grad = random_tensor(*context, random, {rows, out}, dtype);

    const Values g = values_of(grad), w_values = values_of(w), x_values = values_of(x),
                 z_values = values_of(before);
    const auto at = [](std::int64_t row, std::int64_t columns, std::int64_t column) {
      return static_cast<std::size_t>(row * columns + column);
    };
    Values grad_x(static_cast<std::size_t>(rows * in));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < in; ++j) {
        double& sum = grad_x[at(i, in, j)];
        for (std::int64_t k = 0; k < out; ++k) sum += g[at(i, out, k)] * w_values[at(k, in, j)];
        sum *= derivative(activation, z_values[at(i, in, j)]);
      }
    const Tensor found_x = Tensor::empty(*context, {rows, in}, dtype);
    kernels.linear_input_gradient(grad, w, below, found_x, false);
    expect_close(found_x, grad_x, tolerance(dtype, 600));

    // A block of the weight's rows.
    const std::int64_t begin = random.integer(0, out), end = random.integer(begin, out);
    const bool accumulate = random.integer(0, 1) > 0, accumulate_bias = random.integer(0, 1) > 0;
    const Tensor found_w = random_tensor(*context, random, {end - begin, in}, dtype),
                 found_bias = random.integer(0, 3) > 0
                                  ? random_tensor(*context, random, {end - begin}, dtype)
                                  : Tensor{};
    Values grad_w =
        accumulate ? values_of(found_w) : Values(static_cast<std::size_t>((end - begin) * in));
    Values grad_bias = accumulate_bias && found_bias.defined()
                           ? values_of(found_bias)
                           : Values(static_cast<std::size_t>(end - begin));
    for (std::int64_t k = begin; k < end; ++k)
      for (std::int64_t i = 0; i < rows; ++i) {
        grad_bias[at(0, 0, k - begin)] += g[at(i, out, k)];
        for (std::int64_t j = 0; j < in; ++j)
          grad_w[at(k - begin, in, j)] += g[at(i, out, k)] * x_values[at(i, in, j)];
      }
    kernels.linear_weight_gradient(grad.slice(1, begin, end), x, found_w, accumulate, found_bias,
                                   accumulate_bias);
    expect_close(found_w, grad_w, tolerance(dtype, 120));
    if (found_bias.defined()) expect_close(found_bias, grad_bias, tolerance(dtype, 120));
  }
}

TEST(Linear, BitsDoNotDependOnTheThreadCount) {
  const auto context = make_test_context(1);
  Tensor first_y, first_bias;
  for (const int threads : {1, 2, 3}) {
    const auto other = make_test_context(threads);
    Random random(3);
    const Tensor x = random_tensor(*other, random, {300, 120}, DType::float32);
    const Tensor w = random_tensor(*other, random, {700, 120}, DType::float32);
    const Tensor bias = random_tensor(*other, random, {700}, DType::float32);
    const Tensor y = Tensor::empty(*other, {300, 700}), grad_bias = Tensor::empty(*other, {700});
    const ActivationRecord record = kernels.linear(x, w, bias, Activation::tanh, true, y);
    kernels.bias_activation_backward(record, y, Tensor::empty(*other, {300, 700}), grad_bias,
                                     false);
    const Tensor y_here = Tensor::from<float>(*context, y.to_vector<float>(), y.shape());
    const Tensor bias_here =
        Tensor::from<float>(*context, grad_bias.to_vector<float>(), grad_bias.shape());
    if (!first_y.defined()) {
      first_y = y_here;
      first_bias = bias_here;
    }
    expect_same_bits(y_here, first_y);
    expect_same_bits(bias_here, first_bias);
  }
}

TEST(Linear, MistakesAreNamed) {
  const auto context = make_test_context();
  const auto tensor = [&](const Shape& shape) { return Tensor::empty(*context, shape); };
  EXPECT_THROW(
      kernels.linear(tensor({3, 4}), tensor({5, 6}), {}, Activation::none, false, tensor({3, 5})),
      UsageError);
  EXPECT_THROW(kernels.linear(tensor({3, 4}), tensor({5, 4}), tensor({4}), Activation::none, false,
                              tensor({3, 5})),
               UsageError);
  EXPECT_THROW(
      kernels.linear(tensor({3, 4}), tensor({5, 4}), {}, Activation::none, false, tensor({3, 4})),
      UsageError);
  EXPECT_THROW(kernels.linear_weight_gradient(tensor({3, 5}), tensor({2, 4}), tensor({5, 4}), false,
                                              {}, false),
               UsageError);
  EXPECT_THROW(kernels.linear_weight_gradient(tensor({3, 5}), tensor({3, 4}), tensor({5, 4}), false,
                                              tensor({4}), false),
               UsageError);
  EXPECT_THROW(
      kernels.linear_input_gradient(tensor({3, 5}), tensor({6, 4}), {}, tensor({3, 4}), false),
      UsageError);
  const Tensor y = tensor({3, 4});
  kernels.fill(1, y);
  EXPECT_THROW(kernels.linear_input_gradient(tensor({3, 5}), tensor({5, 4}), {Activation::relu, y},
                                             tensor({3, 4}), true),
               UsageError);
}

}  // namespace
}  // namespace lockstep::kernels::testing

#include <limits>

#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = cpu_kernels();

TEST(OptimizerKernels, SgdFollowsPyTorch) {
  const auto context = device::make_cpu_context(2);
  Random random(1);
  for (const DType dtype : float_types) {
    for (const std::int64_t count : {0, 1, 37, 40000}) {
      for (int variant = 0; variant < 8; ++variant) {
        SgdOptions options{.lr = 0.1, .momentum = 0.9, .dampening = variant & 1 ? 0.2 : 0};
        options.weight_decay = variant & 2 ? 0.01 : 0;
        options.nesterov = (variant & 4) != 0;
        const Tensor parameter = random_tensor(*context, random, {count}, dtype);
        const Tensor momentum = Tensor::empty(*context, {count}, dtype);
        kernels.fill(std::numeric_limits<double>::quiet_NaN(),
                     momentum);  // not read on the first step
        Values p = values_of(parameter), buffer(p.size());
        for (int step = 1; step <= 3; ++step) {
          options.first_step = step == 1;
          const Tensor grad = random_tensor(*context, random, {count}, dtype);
          const Values g = values_of(grad);
          for (std::size_t i = 0; i < p.size(); ++i) {
            double d = 0.5 * g[i] + options.weight_decay * p[i];
            buffer[i] = step == 1 ? d : options.momentum * buffer[i] + (1 - options.dampening) * d;
            d = options.nesterov ? d + options.momentum * buffer[i] : buffer[i];
            p[i] -= options.lr * d;
          }
          kernels.sgd_step(parameter, grad, momentum, 0.5, options);
          expect_close(momentum, buffer, tolerance(dtype, 8));
          expect_close(parameter, p, tolerance(dtype, 8));
        }
      }
    }
  }
}

TEST(OptimizerKernels, SgdWithoutMomentum) {
  const auto context = device::make_cpu_context();
  Random random(2);
  for (const DType dtype : float_types) {
    const Tensor parameter = random_tensor(*context, random, {41}, dtype),
                 grad = random_tensor(*context, random, {41}, dtype);
    Values expected = values_of(parameter);
    const Values g = values_of(grad);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] -= 0.1 * (g[i] + 0.01 * expected[i]);
    kernels.sgd_step(parameter, grad, {}, 1, {.lr = 0.1, .weight_decay = 0.01});
    expect_close(parameter, expected, tolerance(dtype));
  }
}

TEST(OptimizerKernels, AdamAndAdamWFollowPyTorch) {
  const auto context = device::make_cpu_context(2);
  Random random(3);
  for (const DType dtype : float_types) {
    for (const std::int64_t count : {0, 1, 37, 40000}) {
      for (const bool decoupled : {false, true}) {
        AdamOptions options{.lr = 0.01, .weight_decay = 0.1, .decoupled = decoupled};
        const Tensor parameter = random_tensor(*context, random, {count}, dtype);
        const Tensor first = Tensor::empty(*context, {count}, dtype),
                     second = Tensor::empty(*context, {count}, dtype);
        kernels.fill(0, first);
        kernels.fill(0, second);
        Values p = values_of(parameter), m(p.size()), v(p.size());
        for (int step = 1; step <= 4; ++step) {
          options.step = step;
          const Tensor grad = random_tensor(*context, random, {count}, dtype);
          const Values g = values_of(grad);
          for (std::size_t i = 0; i < p.size(); ++i) {
            double d = 2 * g[i];
            if (decoupled) {
              p[i] *= 1 - options.lr * options.weight_decay;
            } else {
              d += options.weight_decay * p[i];
            }
            m[i] = options.beta1 * m[i] + (1 - options.beta1) * d;
            v[i] = options.beta2 * v[i] + (1 - options.beta2) * d * d;
            const double m_hat = m[i] / (1 - std::pow(options.beta1, step));
            const double v_hat = v[i] / (1 - std::pow(options.beta2, step));
            p[i] -= options.lr * m_hat / (std::sqrt(v_hat) + options.epsilon);
          }
          kernels.adam_step(parameter, grad, first, second, 2, options);
          expect_close(first, m, tolerance(dtype, 8));
          expect_close(second, v, tolerance(dtype, 8));
          expect_close(parameter, p, tolerance(dtype, 8));
        }
      }
    }
  }
}

// An update of a range cut into buckets must have the bits of the update of the whole.
TEST(OptimizerKernels, ARangeMayBeCutAnywhere) {
  const auto context = device::make_cpu_context();
  Random random(4);
  const std::int64_t count = 5003, cut = 1777;
  const Tensor grad = random_tensor(*context, random, {count}, DType::float32);
  const Tensor start = random_tensor(*context, random, {count}, DType::float32);
  const auto copy_of_start = [&] {
    const Tensor copy = Tensor::empty(*context, {count});
    kernels.copy(start, copy);
    return copy;
  };
  const Tensor whole = copy_of_start(), parts = copy_of_start();
  const Tensor m1 = copy_of_start(), v1 = copy_of_start(), m2 = copy_of_start(),
               v2 = copy_of_start();
  kernels.unary(Unary::square, v1, v1);
  kernels.unary(Unary::square, v2, v2);
  const AdamOptions options{.lr = 0.1, .step = 3};
  kernels.adam_step(whole, grad, m1, v1, 1, options);
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, {cut, count}}) {
    const auto range = [&](const Tensor& t) { return t.slice(0, begin, end); };
    kernels.adam_step(range(parts), range(grad), range(m2), range(v2), 1, options);
  }
  expect_same_bits(whole, parts);
  expect_same_bits(v1, v2);
}

TEST(OptimizerKernels, MistakesAreNamed) {
  const auto context = device::make_cpu_context();
  const Tensor a = Tensor::empty(*context, {4}), b = Tensor::empty(*context, {5});
  EXPECT_THROW(kernels.sgd_step(a, b, {}, 1, {}), UsageError);
  EXPECT_THROW(kernels.sgd_step(a, a, b, 1, {}), UsageError);
  EXPECT_THROW(kernels.adam_step(a, a, a, b, 1, {}), UsageError);
}

}  // namespace
}  // namespace lockstep::kernels::testing

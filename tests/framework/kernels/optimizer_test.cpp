#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "framework/kernels/stored_constants.h"
#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();

void sgd(const Tensor& parameter, const Tensor& grad, const Tensor& momentum,
         const GradientUse& use, const SgdOptions& options, bool nesterov = false) {
  const Tensor constants = make_sgd_constants(parameter);
  store_constants(options, constants);
  kernels.sgd_step(parameter, {}, grad, momentum, nesterov, constants, use);
}

void adam(const Tensor& parameter, const Tensor& grad, const Tensor& first_moment,
          const Tensor& second_moment, const GradientUse& use, const AdamOptions& options) {
  const Tensor constants = make_adam_constants(parameter);
  store_constants(options, constants);
  kernels.adam_step(parameter, {}, grad, first_moment, second_moment, constants, use);
}

Tensor factor_of(Context& context, double factor) {
  return Tensor::from<double>(context, {factor}, {1});
}

TEST(OptimizerKernels, SgdFollowsPyTorch) {
  const auto context = make_test_context(2);
  Random random(1);
  for (const DType dtype : float_types) {
    for (const std::int64_t count : {0, 1, 37, 40000}) {
      for (int variant = 0; variant < 4; ++variant) {
        SgdOptions options{.lr = 0.1, .momentum = 0.9};
        options.weight_decay = variant & 1 ? 0.01 : 0;
        const bool nesterov = (variant & 2) != 0;
        const Tensor parameter = random_tensor(*context, random, {count}, dtype);
        const Tensor momentum = Tensor::empty(*context, {count}, dtype);
        kernels.fill(0, momentum);
        Values p = values_of(parameter), buffer(p.size());
        for (int step = 1; step <= 3; ++step) {
          const Tensor grad = random_tensor(*context, random, {count}, dtype);
          const Values g = values_of(grad);
          for (std::size_t i = 0; i < p.size(); ++i) {
            double d = 0.5 * g[i] + options.weight_decay * p[i];
            buffer[i] = options.momentum * buffer[i] + d;
            d = nesterov ? d + options.momentum * buffer[i] : buffer[i];
            p[i] -= options.lr * d;
          }
          sgd(parameter, grad, momentum, {.factor = factor_of(*context, 0.5)}, options, nesterov);
          expect_close(momentum, buffer, tolerance(dtype, 8));
          expect_close(parameter, p, tolerance(dtype, 8));
        }
      }
    }
  }
}

TEST(OptimizerKernels, SgdWithoutMomentum) {
  const auto context = make_test_context();
  Random random(2);
  for (const DType dtype : float_types) {
    const Tensor parameter = random_tensor(*context, random, {41}, dtype),
                 grad = random_tensor(*context, random, {41}, dtype);
    Values expected = values_of(parameter);
    const Values g = values_of(grad);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] -= 0.1 * (g[i] + 0.01 * expected[i]);
    sgd(parameter, grad, {}, {}, {.lr = 0.1, .weight_decay = 0.01});
    expect_close(parameter, expected, tolerance(dtype));
  }
}

TEST(OptimizerKernels, AdamAndAdamWFollowPyTorch) {
  const auto context = make_test_context(2);
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
          adam(parameter, grad, first, second, {.factor = factor_of(*context, 2)}, options);
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
  const auto context = make_test_context();
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
  adam(whole, grad, m1, v1, {}, options);
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, {cut, count}}) {
    const auto range = [&](const Tensor& t) { return t.slice(0, begin, end); };
    adam(range(parts), range(grad), range(m2), range(v2), {}, options);
  }
  expect_same_bits(whole, parts);
  expect_same_bits(v1, v2);
}

TEST(OptimizerKernels, GradientsAreClampedAfterScaling) {
  const auto context = make_test_context();
  Random random(5);
  const std::int64_t count = 1003;
  for (const DType dtype : float_types) {
    const Tensor grad = random_tensor(*context, random, {count}, dtype);
    for (const bool is_adam : {false, true}) {
      const auto stepped = [&](const Tensor& gradient, const GradientUse& use) {
        const Tensor p = Tensor::empty(*context, {count}, dtype),
                     m = Tensor::empty(*context, {count}, dtype),
                     v = Tensor::empty(*context, {count}, dtype);
        for (const Tensor& t : {p, m, v}) kernels.fill(0, t);
        if (is_adam)
          adam(p, gradient, m, v, use, {.lr = 0.1});
        else
          sgd(p, gradient, m, use, {.lr = 0.1, .momentum = 0.9});
        return p;
      };
      Values clamped = values_of(grad);
      for (double& g : clamped) g = std::clamp(2 * g, -0.5, 0.5);
      const Tensor expected = Tensor::empty(*context, {count}, dtype);
      assign(expected, clamped);
      expect_same_bits(stepped(grad, {.limit = 0.5, .factor = factor_of(*context, 2)}),
                       stepped(expected, {}));
    }
  }
}

TEST(OptimizerKernels, ValuesThatAreNotFiniteAreNoticed) {
  const auto context = make_test_context(2);
  const double inf = std::numeric_limits<double>::infinity();
  const std::int64_t count = 70001;
  for (const DType dtype : float_types) {
    const Tensor p = Tensor::empty(*context, {count}, dtype),
                 grad = Tensor::empty(*context, {count}, dtype),
                 m = Tensor::empty(*context, {count}, dtype),
                 v = Tensor::empty(*context, {count}, dtype);
    const Tensor flag = Tensor::empty(*context, {1}, DType::int32);
    for (const Tensor& t : {p, m, v}) kernels.fill(0, t);
    const auto noticed = [&](const GradientUse& use) {
      std::vector<bool> found;
      for (int step = 0; step < 3; ++step) {
        kernels.fill(0, flag);
        if (step == 0) sgd(p, grad, {}, use, {.lr = 0.1});
        if (step == 1) sgd(p, grad, m, use, {.lr = 0.1, .momentum = 0.9});
        if (step == 2) adam(p, grad, m, v, use, {.lr = 0.1});
        found.push_back(flag.item<std::int32_t>() != 0);
      }
      return found;
    };
    kernels.fill(1e30, grad);
    EXPECT_THAT(noticed({.nonfinite = flag}), ::testing::Each(false));
    for (const double bad : {inf, -inf, std::nan("")}) {
      for (const std::int64_t at : {std::int64_t{0}, std::int64_t{40000}, count - 1}) {
        kernels.fill(1, grad);
        kernels.fill(bad, grad.slice(0, at, at + 1));
        EXPECT_THAT(noticed({.limit = 1, .nonfinite = flag}), ::testing::Each(true))
            << bad << " at " << at;
        EXPECT_THAT(noticed({}), ::testing::Each(false));
      }
    }
    // It only ever raises the flag.
    kernels.fill(0, grad);
    kernels.fill(1, flag);
    sgd(p, grad, {}, {.nonfinite = flag}, {.lr = 0.1});
    EXPECT_EQ(flag.item<std::int32_t>(), 1);
  }
}

TEST(OptimizerKernels, AValueThatIsNotFiniteLeavesItsParameter) {
  const auto context = make_test_context();
  for (const DType dtype : float_types)
    for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")})
      for (int step = 0; step < 3; ++step) {
        std::vector<Tensor> tensors;
        for (int i = 0; i < 4; ++i) tensors.push_back(Tensor::empty(*context, {100}, dtype));
        const Tensor &p = tensors[0], &grad = tensors[1], &m = tensors[2], &v = tensors[3];
        for (const Tensor& t : {p, grad}) kernels.fill(1, t);
        for (const Tensor& t : {m, v}) kernels.fill(0, t);
        kernels.fill(bad, grad.slice(0, 37, 38));
        if (step == 0) sgd(p, grad, {}, {}, {.lr = 0.1});
        if (step == 1) sgd(p, grad, m, {}, {.lr = 0.1, .momentum = 0.9});
        if (step == 2) adam(p, grad, m, v, {}, {.lr = 0.1});
        const Tensor changed = Tensor::empty(*context, {100}, DType::float64);
        kernels.copy(p, changed);
        const std::vector<double> values = changed.to_vector<double>();
        for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i] == 1, i == 37) << i;
      }
}

TEST(OptimizerKernels, MistakesAreNamed) {
  const auto context = make_test_context();
  const Tensor a = Tensor::empty(*context, {4}), b = Tensor::empty(*context, {5});
  EXPECT_THROW(sgd(a, b, {}, {}, {}), UsageError);
  EXPECT_THROW(sgd(a, a, b, {}, {}), UsageError);
  EXPECT_THROW(adam(a, a, a, b, {}, {}), UsageError);
  EXPECT_THROW(sgd(a, a, {}, {.factor = a}, {}), UsageError);
  EXPECT_THROW(sgd(a, a, {}, {.skip = a}, {}), UsageError);
  EXPECT_THROW(kernels.sgd_step(a, {}, a, {}, false, make_adam_constants(a), {}), UsageError);
  EXPECT_THROW(kernels.adam_step(a, {}, a, a, a, make_sgd_constants(a), {}), UsageError);
  EXPECT_THROW(kernels.sgd_step(a, a, a, {}, false, make_sgd_constants(a), {}), UsageError);
  EXPECT_THROW(store_constants(SgdOptions{}, make_adam_constants(a)), UsageError);
}

// As a captured graph is replayed: the same calls with other values in memory.
TEST(OptimizerKernels, AStepReadsItsConstantsAndItsFactorWhenItRuns) {
  const auto context = make_test_context();
  Random random(7);
  for (const DType dtype : float_types) {
    const std::int64_t count = 1003;
    const Tensor grad = random_tensor(*context, random, {count}, dtype);
    const auto zeros = [&] {
      const Tensor tensor = Tensor::empty(*context, {count}, dtype);
      kernels.fill(0, tensor);
      return tensor;
    };
    const Tensor p = zeros(), m = zeros(), v = zeros(), expected_p = zeros(), expected_m = zeros(),
                 expected_v = zeros();
    const Tensor constants = make_adam_constants(p);
    const Tensor factor = Tensor::empty(*context, {1}, DType::float64);
    for (int step = 1; step <= 3; ++step) {
      const AdamOptions options{.lr = 0.1 / step, .weight_decay = 0.01, .step = step};
      const double scale = 1.0 / (3 * step);
      store_constants(options, constants);
      kernels.fill(scale, factor);
      kernels.adam_step(p, {}, grad, m, v, constants, {.factor = factor});
      adam(expected_p, grad, expected_m, expected_v, {.factor = factor_of(*context, scale)},
           options);
      expect_same_bits(p, expected_p);
      expect_same_bits(m, expected_m);
      expect_same_bits(v, expected_v);
    }
  }
}

// Master weights of float32 with a working copy of bfloat16.
TEST(OptimizerKernels, AWorkingCopyHasTheRoundedParameters) {
  const auto context = make_test_context(2);
  Random random(11);
  for (const std::int64_t count : {1, 3, 1003, 70001})
    for (const std::int64_t shift : {0, 1, 4, 6})
      for (const bool is_adam : {false, true}) {
        const auto some = [&](double low) {
          return random_tensor(*context, random, {count + shift}, DType::float32,
                               Layout::contiguous, low, 1);
        };
        const auto range = [&](const Tensor& t) { return t.slice(0, shift, shift + count); };
        const Tensor p = some(-1), grad = some(-1), m = some(-1), v = some(0);
        const Tensor alone = Tensor::empty(*context, p.shape()),
                     other_m = Tensor::empty(*context, p.shape()),
                     other_v = Tensor::empty(*context, p.shape());
        kernels.copy(p, alone);
        kernels.copy(m, other_m);
        kernels.copy(v, other_v);
        const Tensor working = Tensor::empty(*context, p.shape(), DType::bfloat16),
                     expected = Tensor::empty(*context, p.shape(), DType::bfloat16);
        kernels.fill(7, working);
        kernels.fill(7, expected);
        if (is_adam) {
          const Tensor constants = make_adam_constants(p);
          store_constants(AdamOptions{.lr = 0.1, .weight_decay = 0.1, .decoupled = true},
                          constants);
          kernels.adam_step(range(p), range(working), range(grad), range(m), range(v), constants,
                            {});
          adam(range(alone), range(grad), range(other_m), range(other_v), {},
               {.lr = 0.1, .weight_decay = 0.1, .decoupled = true});
        } else {
          const Tensor constants = make_sgd_constants(p);
          store_constants(SgdOptions{.lr = 0.1, .momentum = 0.9}, constants);
          kernels.sgd_step(range(p), range(working), range(grad), range(m), false, constants, {});
          sgd(range(alone), range(grad), range(other_m), {}, {.lr = 0.1, .momentum = 0.9});
        }
        kernels.copy(range(p), range(expected));
        expect_same_bits(p, alone);
        expect_same_bits(working, expected);
      }
}

TEST(OptimizerKernels, AStepThatIsSkippedChangesNothing) {
  const auto context = make_test_context();
  Random random(8);
  const Tensor flag = Tensor::empty(*context, {1}, DType::int32);
  for (const DType dtype : float_types)
    for (int step = 0; step < 3; ++step) {
      const Tensor p = random_tensor(*context, random, {1003}, dtype),
                   grad = random_tensor(*context, random, {1003}, dtype),
                   m = random_tensor(*context, random, {1003}, dtype),
                   v = random_tensor(*context, random, {1003}, dtype, Layout::contiguous, 0, 1);
      const auto all = [&] {
        Values values;
        for (const Tensor& t : {p, m, v}) {
          const Values of_tensor = values_of(t);
          values.insert(values.end(), of_tensor.begin(), of_tensor.end());
        }
        return values;
      };
      const Values before = all();
      for (const int raised : {1, 0}) {
        kernels.fill(raised, flag);
        if (step == 0) sgd(p, grad, {}, {.skip = flag}, {.lr = 0.1});
        if (step == 1) sgd(p, grad, m, {.skip = flag}, {.lr = 0.1, .momentum = 0.9});
        if (step == 2) adam(p, grad, m, v, {.skip = flag}, {.lr = 0.1});
        EXPECT_EQ(all() == before, raised == 1);
      }
    }
}

}  // namespace
}  // namespace lockstep::kernels::testing

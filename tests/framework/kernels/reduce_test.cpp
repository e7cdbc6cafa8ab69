#include <limits>

#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();

// alpha * sum of a * b (b may be undefined) into the shape of out, plus out's own values.
Values reference_sum(double alpha, const Tensor& a, const Tensor& b, const Tensor& out,
                     bool accumulate) {
  const Shape shape = b.defined() ? base::broadcast(a.shape(), b.shape()) : a.shape();
  const Values a_values = values_of(a), b_values = b.defined() ? values_of(b) : Values{};
  // long double: equal terms (of an expanded operand) round in one direction, which adds up in
  // double.
  std::vector<long double> sums(static_cast<std::size_t>(out.count()));
  for_each_index(shape, [&](const Index& index) {
    double term = a_values[broadcast_position(index, a.shape())];
    if (b.defined()) term *= b_values[broadcast_position(index, b.shape())];
    sums[broadcast_position(index, out.shape())] += term;
  });
  Values expected = values_of(out);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    expected[i] = static_cast<double>(alpha * sums[i]) + (accumulate ? expected[i] : 0);
  }
  return expected;
}

// How many terms of size about 1 an element of `out` is the sum of.
double terms_of(const Shape& summed, const Tensor& out) {
  return 1 + static_cast<double>(summed.count()) /
                 static_cast<double>(std::max<std::int64_t>(1, out.count()));
}

TEST(Reduce, SumToRandomShapesAndLayouts) {
  const auto context = make_test_context(2);
  Random random(1);
  for (int trial = 0; trial < trials(1500); ++trial) {
    const DType dtype = float_types[trial % 2];
    const bool accumulate = trial % 3 == 0;
    const Shape shape = random.shape();
    const Tensor x = random_tensor(*context, random, shape, dtype, random.layout(false));
    const Tensor out =
        random_tensor(*context, random, random.broadcastable(shape), dtype, random.layout(true));
    const Values expected = reference_sum(0.7, x, {}, out, accumulate);
    kernels.sum_to(0.7, x, out, accumulate);
    SCOPED_TRACE(base::to_string(shape) + " to " + base::to_string(out.shape()));
    expect_close(out, expected, tolerance(dtype, 8), terms_of(shape, out));
  }
}

TEST(Reduce, MultiplySumToRandomShapesAndLayouts) {
  const auto context = make_test_context(2);
  Random random(2);
  for (int trial = 0; trial < trials(1500); ++trial) {
    const DType dtype = float_types[trial % 2];
    const bool accumulate = trial % 3 == 0;
    const Shape shape = random.shape();
    const Tensor a =
        random_tensor(*context, random, random.broadcastable(shape), dtype, random.layout(false));
    const Tensor b =
        random_tensor(*context, random, random.broadcastable(shape), dtype, random.layout(false));
    const Shape product = base::broadcast(a.shape(), b.shape());
    const Tensor out =
        random_tensor(*context, random, random.broadcastable(product), dtype, random.layout(true));
    const Values expected = reference_sum(-1.5, a, b, out, accumulate);
    kernels.multiply_sum_to(-1.5, a, b, out, accumulate);
    SCOPED_TRACE(base::to_string(a.shape()) + " * " + base::to_string(b.shape()) + " to " +
                 base::to_string(out.shape()));
    expect_close(out, expected, tolerance(dtype, 16), terms_of(product, out));
  }
}

// Long enough for several blocks in both forms, and the same bits for any number of threads.
TEST(Reduce, LongSumsAreExactForWholeNumbersAndEqualForAnyThreadCount) {
  const std::pair<Shape, Shape> cases[] = {{{1000003}, {}},
                                           {{700001, 3}, {3}},
                                           {{3, 400003}, {3, 1}},
                                           {{40, 301, 67}, {301, 1}},
                                           {{2, 300000, 2}, {2, 1, 2}}};
  for (const auto& [shape, out_shape] : cases) {
    Values whole(static_cast<std::size_t>(shape.count()));
    for (std::size_t i = 0; i < whole.size(); ++i)
      whole[i] = static_cast<double>(i * 7919 % 11) - 4;
    Values previous;
    for (const int threads : {1, 2, 5}) {
      const auto context = make_test_context(threads);
      const Tensor x = Tensor::empty(*context, shape), out = Tensor::empty(*context, out_shape);
      assign(x, whole);
      const Values expected = reference_sum(1, x, {}, out, false);
      kernels.sum_to(1, x, out, false);
      EXPECT_EQ(values_of(out), expected);
      Random random(3);
      const Tensor rough = random_tensor(*context, random, shape, DType::float32);
      kernels.multiply_sum_to(1, rough, rough, out, false);
      if (previous.empty()) previous = values_of(out);
      EXPECT_EQ(values_of(out), previous);
    }
  }
}

double squares_of(const Tensor& x) {
  const Tensor sum = Tensor::empty(x.context(), {1}, DType::float64);
  kernels.sum_of_squares(x, sum);
  return sum.item<double>();
}

bool all_finite(const Tensor& x) {
  const Tensor flag = Tensor::empty(x.context(), {1}, DType::int32);
  kernels.fill(0, flag);
  kernels.find_nonfinite(x, flag);
  return flag.item<std::int32_t>() == 0;
}

TEST(Reduce, SumOfSquares) {
  Random random(4);
  double previous = 0;
  for (const int threads : {1, 3}) {
    const auto context = make_test_context(threads);
    for (const std::int64_t count : {0, 1, 15, 16, 17, 32768, 100003}) {
      for (const DType dtype : float_types) {
        const Tensor x = random_tensor(*context, random, {count}, dtype);
        double expected = 0;
        for (const double v : values_of(x)) expected += v * v;
        EXPECT_NEAR(squares_of(x), expected, 1e-12 * expected);
      }
    }
    const Tensor x = random_tensor(*context, random = Random(5), {250007}, DType::float32);
    const double sum = squares_of(x);
    if (previous != 0) {
      EXPECT_EQ(sum, previous);
    }
    previous = sum;
  }
}

TEST(Reduce, FindsASingleElementThatIsNotFinite) {
  const auto context = make_test_context(2);
  for (const DType dtype : float_types) {
    const Tensor x = Tensor::empty(*context, {70001}, dtype);
    kernels.fill(dtype == DType::float32 ? 3e38 : 1e308, x);
    EXPECT_TRUE(all_finite(x));
    for (const double bad :
         {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
          std::numeric_limits<double>::quiet_NaN()}) {
      for (const std::int64_t at : {0, 17, 32768, 70000}) {
        kernels.fill(bad, x.slice(0, at, at + 1));
        EXPECT_FALSE(all_finite(x)) << bad << " at " << at;
        kernels.fill(1, x.slice(0, at, at + 1));
      }
    }
    EXPECT_TRUE(all_finite(x));
    EXPECT_TRUE(all_finite(Tensor::empty(*context, {0}, dtype)));
  }
}

// The bits that the host gets from the same sums.
TEST(Reduce, ClipFactor) {
  const auto context = make_test_context();
  Random random(6);
  const double inf = std::numeric_limits<double>::infinity();
  const auto of = [&](std::initializer_list<double> values) {
    return Tensor::from<double>(*context, values, {static_cast<std::int64_t>(values.size())});
  };
  for (int trial = 0; trial < trials(50); ++trial) {
    const double a = random.uniform(0, 9), b = random.uniform(0, 1e-9), c = random.uniform(0, 9);
    const double scale = random.uniform(0.1, 2), limit = random.uniform(0.5, 6);
    const Tensor factor = of({0}), flag = Tensor::empty(*context, {1}, DType::int32);
    kernels.fill(0, flag);
    kernels.clip_factor(of({a, b, c}), of({scale}), limit, factor, flag);
    const double norm = std::sqrt(a + b + c) * scale;
    EXPECT_EQ(factor.item<double>(), scale * (norm > limit ? limit / norm : 1));
    EXPECT_EQ(flag.item<std::int32_t>(), 0);
    for (const double bad : {inf, std::nan("")}) {
      kernels.fill(0, flag);
      kernels.clip_factor(of({a, bad, c}), of({scale}), limit, factor, flag);
      EXPECT_EQ(flag.item<std::int32_t>(), 1);
    }
  }
}

TEST(Reduce, SumOverNothingIsZero) {
  const auto context = make_test_context();
  const Tensor out = Tensor::empty(*context, {3});
  kernels.fill(9, out);
  kernels.sum_to(1, Tensor::empty(*context, {0, 3}), out, true);
  EXPECT_EQ(values_of(out), (Values{9, 9, 9}));
  kernels.sum_to(1, Tensor::empty(*context, {0, 3}), out, false);
  EXPECT_EQ(values_of(out), (Values{0, 0, 0}));
}

TEST(Reduce, MistakesAreNamed) {
  const auto context = make_test_context();
  EXPECT_THROW(
      kernels.sum_to(1, Tensor::empty(*context, {3, 4}), Tensor::empty(*context, {3}), false),
      UsageError);
  const Tensor sum = Tensor::empty(*context, {1}, DType::float64);
  EXPECT_THROW(kernels.sum_of_squares(Tensor::empty(*context, {3, 4}).transpose(0, 1), sum),
               UsageError);
  EXPECT_THROW(kernels.sum_of_squares(Tensor::empty(*context, {3}), Tensor::empty(*context, {1})),
               UsageError);
  EXPECT_THROW(kernels.find_nonfinite(Tensor::empty(*context, {3}), sum), UsageError);
  EXPECT_THROW(kernels.clip_factor(sum, sum, 1, sum, sum), UsageError);
}

}  // namespace
}  // namespace lockstep::kernels::testing

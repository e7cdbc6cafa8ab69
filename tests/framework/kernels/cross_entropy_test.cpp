#include <gmock/gmock.h>
#include <limits>

#include <string>

#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();
constexpr std::int64_t ignore = -100;

Tensor random_targets(Context& context, Random& random, std::int64_t rows, std::int64_t classes) {
  std::vector<std::int64_t> targets;
  for (std::int64_t i = 0; i < rows; ++i) {
    targets.push_back(random.integer(0, 5) == 0 ? ignore : random.integer(0, classes - 1));
  }
  return Tensor::from<std::int64_t>(context, targets, {rows});
}

TEST(CrossEntropy, LossAndGradientMatchTheDefinition) {
  const auto context = make_test_context(2);
  Random random(1);
  for (int trial = 0; trial < trials(300); ++trial) {
    const DType dtype = float_types[trial % 2];
    const std::int64_t rows = random.integer(0, 50),
                       classes = random.integer(1, trial % 10 == 0 ? 1000 : 20);
    const double smoothing = trial % 3 == 0 ? 0.1 : 0;
    const Tensor logits =
        random_tensor(*context, random, {rows, classes}, dtype, random.layout(false), -9, 9);
    const Tensor targets = random_targets(*context, random, rows, classes);
    const Tensor grad = trial % 4 == 0 ? Tensor{} : Tensor::empty(*context, {rows, classes}, dtype);
    const LossSum loss = kernels.cross_entropy(logits, targets, ignore, smoothing, grad);

    const Values x = values_of(logits);
    const std::vector<std::int64_t> target_of = targets.to_vector<std::int64_t>();
    Values expected_grad;
    double expected = 0;
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t target = target_of[static_cast<std::size_t>(row)];
      const double* const z = x.data() + row * classes;
      double sum = 0;
      for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(z[i]);
      for (std::int64_t i = 0; i < classes; ++i) {
        const double wanted =
            (i == target ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
        if (target != ignore) expected -= wanted * (z[i] - std::log(sum));
        expected_grad.push_back(target == ignore ? 0 : std::exp(z[i]) / sum - wanted);
      }
      count += target != ignore;
    }
    EXPECT_EQ(loss.count, count);
    EXPECT_NEAR(loss.sum, expected, tolerance(dtype, 40) * (1 + std::abs(expected)));
    if (grad.defined()) expect_close(grad, expected_grad, tolerance(dtype, 16));
    // Without a gradient to write the loss has the same bits.
    EXPECT_EQ(kernels.cross_entropy(logits, targets, ignore, smoothing, {}).sum, loss.sum);
  }
}

TEST(CrossEntropy, SameBitsForAnyThreadCount) {
  double previous = -1;
  for (const int threads : {1, 2, 4}) {
    const auto context = make_test_context(threads);
    Random random(2);
    const Tensor logits = random_tensor(*context, random, {20000, 11}, DType::float32);
    const Tensor targets = random_targets(*context, random, 20000, 11);
    const double sum =
        kernels.cross_entropy(logits, targets, ignore, 0.05, Tensor::empty(*context, {20000, 11}))
            .sum;
    if (previous >= 0) {
      EXPECT_EQ(sum, previous);
    }
    previous = sum;
  }
}

TEST(CrossEntropy, SurvivesLargeLogits) {
  const auto context = make_test_context();
  const Tensor logits = Tensor::from(*context, {1e4f, -1e4f, 0.0f}, {1, 3}),
               grad = Tensor::empty(*context, {1, 3});
  const Tensor targets = Tensor::from<std::int64_t>(*context, {1}, {1});
  EXPECT_EQ(kernels.cross_entropy(logits, targets, ignore, 0, grad).sum, 2e4);
  expect_close(grad, {1, -1, 0}, 0);
}

TEST(CrossEntropy, BadTargetsNameRowAndValue) {
  const auto context = make_test_context();
  const Tensor logits = Tensor::empty(*context, {3, 10});
  kernels.fill(0, logits);
  for (const std::int64_t bad :
       {std::int64_t{10}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    const Tensor targets = Tensor::from<std::int64_t>(*context, {3, ignore, bad}, {3});
    try {
      kernels.cross_entropy(logits, targets, ignore, 0, {});
      FAIL() << "accepted " << bad;
    } catch (const DataError& error) {
      EXPECT_THAT(std::string(error.what()),
                  ::testing::HasSubstr("row 2 is " + std::to_string(bad)));
    }
  }
}

TEST(CrossEntropy, CountsCorrectRows) {
  const auto context = make_test_context();
  const Tensor logits =
      Tensor::from(*context, {1.f, 3.f, 2.f, 5.f, 5.f, 0.f, 5.f, 5.f, 0.f, 0.f, 0.f, 9.f}, {4, 3});
  const Tensor targets = Tensor::from<std::int64_t>(*context, {1, 0, 1, ignore}, {4});
  EXPECT_EQ(kernels.count_correct(logits, targets, ignore),
            2);  // of equals the first; ignored never
}

}  // namespace
}  // namespace lockstep::kernels::testing

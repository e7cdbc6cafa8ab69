#include <gmock/gmock.h>
#include <limits>

#include <string>

#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();
constexpr std::int64_t ignore = -100;

struct Loss {
  double sum, count;
};

Loss loss_of(const Tensor& logits, const Tensor& targets, double label_smoothing,
             const Tensor& grad = {}) {
  const Tensor total = Tensor::empty(logits.context(), {2}, DType::float64);
  kernels.cross_entropy(logits, targets, {.label_smoothing = label_smoothing},
                        {.total = total, .grad = grad});
  kernels.throw_noted_error(logits.context());
  const Values values = values_of(total);
  return {values[0], values[1]};
}

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
    const Loss loss = loss_of(logits, targets, smoothing, grad);

    const Values x = values_of(logits);
    const std::vector<std::int64_t> target_of = targets.to_vector<std::int64_t>();
    Values expected_grad;
    double expected = 0;
    double count = 0;
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
    EXPECT_EQ(loss_of(logits, targets, smoothing).sum, loss.sum);
  }
}

TEST(CrossEntropy, SameBitsForAnyThreadCount) {
  double previous = -1;
  for (const int threads : {1, 2, 4}) {
    const auto context = make_test_context(threads);
    Random random(2);
    const Tensor logits = random_tensor(*context, random, {20000, 11}, DType::float32);
    const Tensor targets = random_targets(*context, random, 20000, 11);
    const double sum = loss_of(logits, targets, 0.05, Tensor::empty(*context, {20000, 11})).sum;
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
  EXPECT_EQ(loss_of(logits, targets, 0, grad).sum, 2e4);
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
      loss_of(logits, targets, 0);
      FAIL() << "accepted " << bad;
    } catch (const DataError& error) {
      EXPECT_THAT(std::string(error.what()),
                  ::testing::HasSubstr("row 2 is " + std::to_string(bad)));
    }
  }
}

TEST(CrossEntropy, AddsToTheTotalAndScalesTheLoss) {
  const auto context = make_test_context();
  Random random(3);
  for (const DType dtype : float_types) {
    const Tensor logits = random_tensor(*context, random, {37, 5}, dtype);
    const Tensor targets = random_targets(*context, random, 37, 5);
    const Loss once = loss_of(logits, targets, 0.1);
    const Tensor total = Tensor::empty(*context, {2}, DType::float64),
                 loss = Tensor::empty(*context, {}, dtype);
    assign(total, {3, 4});
    kernels.cross_entropy(logits, targets, {.label_smoothing = 0.1},
                          {.total = total, .accumulate = true, .loss = loss, .scale = 0.3});
    EXPECT_EQ(values_of(total), (Values{3 + once.sum, 4 + once.count}));
    const double scaled = 0.3 * once.sum;
    EXPECT_EQ(values_of(loss),
              Values{dtype == DType::float32 ? double{static_cast<float>(scaled)} : scaled});
  }
}

// On a GPU the first error stands until it is asked for.
TEST(CrossEntropy, AnErrorIsThrownOnce) {
  const auto context = make_test_context();
  const Tensor logits = Tensor::empty(*context, {2, 3});
  kernels.fill(0, logits);
  EXPECT_THROW(loss_of(logits, Tensor::from<std::int64_t>(*context, {0, 7}, {2}), 0), DataError);
  EXPECT_NO_THROW(kernels.throw_noted_error(*context));
  EXPECT_EQ(loss_of(logits, Tensor::from<std::int64_t>(*context, {0, ignore}, {2}), 0).count, 1);
}

TEST(CrossEntropy, OperandsThatDoNotFitAreRefused) {
  const auto context = make_test_context();
  const Tensor logits = Tensor::empty(*context, {2, 3}),
               targets = Tensor::empty(*context, {2}, DType::int64);
  const Tensor total = Tensor::empty(*context, {2}, DType::float64);
  const auto refused = [&](const CrossEntropyResult& result) {
    EXPECT_THROW(kernels.cross_entropy(logits, targets, {}, result), UsageError);
  };
  refused({.total = Tensor::empty(*context, {2})});
  refused({.total = Tensor::empty(*context, {3}, DType::float64)});
  refused({.total = total, .loss = Tensor::empty(*context, {}, DType::float64)});
  refused({.total = total, .grad = Tensor::empty(*context, {3, 2})});
  EXPECT_THROW(kernels.count_correct(logits, targets, ignore, Tensor::empty(*context, {1}), false),
               UsageError);
}

TEST(CrossEntropy, CountsCorrectRows) {
  const auto context = make_test_context();
  const Tensor logits =
      Tensor::from(*context, {1.f, 3.f, 2.f, 5.f, 5.f, 0.f, 5.f, 5.f, 0.f, 0.f, 0.f, 9.f}, {4, 3});
  const Tensor targets = Tensor::from<std::int64_t>(*context, {1, 0, 1, ignore}, {4});
  const Tensor correct = Tensor::empty(*context, {1}, DType::float64);
  kernels.count_correct(logits, targets, ignore, correct, false);
  EXPECT_EQ(values_of(correct), Values{2});  // of equals the first; ignored never
  kernels.count_correct(logits, targets, ignore, correct, true);
  EXPECT_EQ(values_of(correct), Values{4});
}

}  // namespace
}  // namespace lockstep::kernels::testing

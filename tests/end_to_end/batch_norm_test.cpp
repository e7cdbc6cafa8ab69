// Models with batch norm: statistics that are equal on all ranks, in evaluation and in the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/end_to_end/sandbox.h"
#include "train/checkpoint.h"

namespace lockstep::tests {
namespace {

using ::testing::HasSubstr;

const MadeData with_large_test_set{.training_samples = 1003, .test_samples = 1003};

class EvaluationOfBatchNorm : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Policies, EvaluationOfBatchNorm,
                         ::testing::Values("broadcast", "average"));

// DATA-3
TEST_P(EvaluationOfBatchNorm, IsTheSameForAnyNumberOfWorkers) {
  const Sandbox sandbox(with_large_test_set);
  const auto trained = sandbox.run(
      sandbox.train(4, {"model.batch_norm=true", std::string("data_parallel.buffers=") + GetParam(),
                        "consistency.every=1"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const auto in_the_run = metrics(run_folder(sandbox, trained), "evaluation").back();
  EXPECT_EQ(in_the_run["samples"], 1003);
  EXPECT_GT(in_the_run["accuracy"], 0.6);
  const std::string checkpoint = newest_checkpoint_of(run_folder(sandbox, trained));
  for (int workers : {1, 2, 3, 8}) {
    const auto end =
        sandbox.run({train_program, "evaluate", checkpoint, "--gpus", std::to_string(workers)});
    ASSERT_EQ(end.exit_code, 0) << end.output;
    const auto evaluation = metrics(run_folder(sandbox, end), "evaluation").back();
    EXPECT_EQ(evaluation["samples"], 1003);
    EXPECT_EQ(evaluation["step"], in_the_run["step"]);
    for (const char* key : {"loss", "accuracy"})
      EXPECT_NEAR(evaluation[key].get<double>(), in_the_run[key].get<double>(), 1e-6)
          << key << " on " << workers << " workers";
  }
}

// CKPT-1 for buffers: where a run was saved must not show in them.
TEST_P(EvaluationOfBatchNorm, ResumingIsExact) {
  const Sandbox sandbox;
  const Arguments settings{"model.batch_norm=true",
                           std::string("data_parallel.buffers=") + GetParam(), "train.steps=20"};
  const auto whole = sandbox.run(sandbox.train(4, settings));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const auto first =
      sandbox.run(sandbox.train(4, {"model.batch_norm=true", settings[1], "train.steps=7"}));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const auto rest =
      sandbox.run(sandbox.train(4, settings, {"--resume", run_folder(sandbox, first)}));
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_EQ(final_weights(rest), final_weights(whole));
  const auto expected = metrics(run_folder(sandbox, whole), "evaluation").back();
  const auto found = metrics(run_folder(sandbox, rest), "evaluation").back();
  EXPECT_EQ(found["loss"], expected["loss"]);
}

TEST(BatchNorm, ASingleRowIsFoundBeforeTheFirstStep) {
  const Sandbox sandbox;  // 1003 = 15 * 64 + 43
  const auto end = sandbox.run(sandbox.train(8, {"model.batch_norm=true", "train.accumulate=4"}));
  EXPECT_EQ(end.exit_code, 2) << end.output;
  EXPECT_THAT(end.output, HasSubstr("43 rows"));
  EXPECT_THAT(end.output, HasSubstr("norm.0"));
}

TEST(Buffers, AreNotAveragedWhereThereAreNone) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(2, {"data_parallel.buffers=average"}));
  EXPECT_EQ(end.exit_code, 2) << end.output;
  EXPECT_THAT(end.output, HasSubstr("this mlp has no buffers"));
}

TEST(Evaluate, SaysWhatIsWrong) {
  const Sandbox sandbox;
  const auto missing = sandbox.run({train_program, "evaluate", "nothing.h5", "--gpus", "2"});
  EXPECT_EQ(missing.exit_code, 4) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("train evaluate 'nothing.h5': not found"));
  const auto nothing = sandbox.run({train_program, "evaluate"});
  EXPECT_EQ(nothing.exit_code, 2) << nothing.output;
}

}  // namespace
}  // namespace lockstep::tests

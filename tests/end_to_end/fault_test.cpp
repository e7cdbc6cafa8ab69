// Ranks that die, fail or hang: what a user sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/end_to_end/sandbox.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Arguments endless{"train.epochs=100000", "checkpoint.every_steps=50",
                        "checkpoint.every_epochs=null", "train.evaluate_every=0"};

int count(const std::string& text, const std::string& part) {
  int times = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++times;
  return times;
}

// HANG-1, with the part of LOG-1 that belongs to it. The time limit of a collective plays no part.
TEST(KilledWorker, EndsTheRunAndIsNamed) {
  const Sandbox sandbox;
  Arguments settings = endless;
  settings.push_back("comm.timeout=600");
  Program program(sandbox.train(8, settings), sandbox.options());
  program.wait_for_output("saved", 2);
  kill(program.worker(3), SIGKILL);
  const auto killed_at = std::chrono::steady_clock::now();
  const auto end = program.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - killed_at, std::chrono::seconds(10));
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_THAT(end.last_line, AllOf(HasSubstr("rank 3"), HasSubstr("signal 9"), HasSubstr("step"),
                                   HasSubstr("rank-3.log")));
  EXPECT_TRUE(program.is_gone(std::chrono::seconds(1)));

  Arguments rest{"train.epochs=100000", "train.steps=2000", "train.evaluate_every=0",
                 "checkpoint.every_epochs=null", "checkpoint.every_steps=1000"};
  const auto resumed = sandbox.run(sandbox.train(8, rest, {"--resume"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("resumed from"));
}

struct Failure {
  const char* place;
  int exit_code;
};

// HANG-2
class FailingRank : public ::testing::TestWithParam<Failure> {};
INSTANTIATE_TEST_SUITE_P(Places, FailingRank,
                         ::testing::Values(Failure{"read", 3}, Failure{"forward", 6},
                                           Failure{"before_allreduce", 6}),
                         [](const auto& test) { return std::string(test.param.place); });

TEST_P(FailingRank, IsTheOnlyCause) {
  for (const char* launcher : {"processes", "threads"}) {
    const Sandbox sandbox;
    const std::string fault = std::string("rank=2,step=7,at=") + GetParam().place + ",do=raise";
    const auto end =
        sandbox.run(sandbox.train(4, {}, {"--launcher", launcher}), {{"TRAIN_FAULT", fault}});
    EXPECT_EQ(end.exit_code, GetParam().exit_code) << end.output;
    EXPECT_LT(end.seconds, 10);
    EXPECT_THAT(end.last_line, AllOf(HasSubstr("rank 2"), HasSubstr("step 7")));
    EXPECT_EQ(count(end.output, "error: "), 1) << end.output;
    EXPECT_EQ(metrics(run_folder(sandbox, end), "epoch").size(), 0u);
    // The others say why they stopped.
    EXPECT_THAT(rank_log(run_folder(sandbox, end), 1), HasSubstr("rank 2"));
  }
}

// HANG-4
TEST(MissingRank, IsNamedAfterTheStartTimeout) {
  for (int rank : {6, 0}) {
    const Sandbox sandbox;
    const auto end =
        sandbox.run(sandbox.train(8, {"comm.start_timeout=3"}),
                    {{"TRAIN_FAULT", "rank=" + std::to_string(rank) + ",at=start,do=stall:60"}});
    EXPECT_EQ(end.exit_code, 5) << end.output;
    EXPECT_GE(end.seconds, 3);
    EXPECT_LT(end.seconds, 30);  // and not the 60 that the rank would stall
    EXPECT_THAT(end.output, HasSubstr("rank " + std::to_string(rank)));
  }
}

TEST(StuckRank, IsNamedAfterTheTimeoutOfTheFirstCollective) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(4, {"comm.timeout=3"}),
                               {{"TRAIN_FAULT", "rank=1,step=0,at=before_allreduce,do=stall:60"}});
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_GE(end.seconds, 3);
  EXPECT_LT(end.seconds, 30);
  EXPECT_THAT(end.last_line, HasSubstr("rank 1 did not arrive"));
}

TEST(StuckRank, IsNamedInTraining) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(4, {"comm.timeout=2"}),
                               {{"TRAIN_FAULT", "rank=2,step=9,at=forward,do=stall:60"}});
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_LT(end.seconds, 30);
  EXPECT_THAT(end.last_line, AllOf(HasSubstr("rank 2 did not arrive"), HasSubstr("bucket")));
}

TEST(ExitingRank, IsLost) {
  const Sandbox sandbox;
  const auto end =
      sandbox.run(sandbox.train(4), {{"TRAIN_FAULT", "rank=1,step=4,at=forward,do=exit:0"}});
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_THAT(end.last_line, AllOf(HasSubstr("rank 1"), HasSubstr("step 4")));
}

// GRAD-4
TEST(DamagedReplica, StopsTheRunAndIsNotSaved) {
  const Sandbox sandbox;
  const auto end =
      sandbox.run(sandbox.train(4, {"consistency.every=1", "checkpoint.every_steps=1"}),
                  {{"TRAIN_FAULT", "rank=2,step=5,at=after_step,do=flip"}});
  EXPECT_EQ(end.exit_code, 7) << end.output;
  EXPECT_THAT(end.last_line,
              AllOf(HasSubstr("rank 2 differs"), HasSubstr("step 5"), HasSubstr("parameter '")));
  EXPECT_THAT(end.last_line, HasSubstr("(1 element, by up to "));
  EXPECT_THAT(newest_checkpoint_of(run_folder(sandbox, end)), HasSubstr("step-00000004.h5"));
}

TEST(DamagedReplica, OfTwoIsNotSavedBetweenTwoChecks) {
  const Sandbox sandbox;
  const auto end =
      sandbox.run(sandbox.train(2, {"consistency.every=100", "checkpoint.every_steps=6"}),
                  {{"TRAIN_FAULT", "rank=0,step=11,at=after_step,do=flip"}});
  EXPECT_EQ(end.exit_code, 7) << end.output;
  EXPECT_THAT(end.last_line, AllOf(HasSubstr("ranks 0 and 1 differ"), HasSubstr("step 12")));
  EXPECT_THAT(newest_checkpoint_of(run_folder(sandbox, end)), HasSubstr("step-00000006.h5"));
}

TEST(DamagedReplica, TakesTheValuesOfTheMajorityAndGoesOn) {
  const Sandbox sandbox;
  const Arguments settings{"consistency.every=1", "consistency.on_divergence=resync",
                           "optimizer.momentum=0.9", "train.epochs=1"};
  // Of two ranks the first is taken to be right.
  for (const auto& [workers, rank] : {std::pair{4, 2}, std::pair{4, 0}, std::pair{2, 1}}) {
    const auto whole = sandbox.run(sandbox.train(workers, settings));
    const auto end = sandbox.run(
        sandbox.train(workers, settings),
        {{"TRAIN_FAULT", "rank=" + std::to_string(rank) + ",step=5,at=after_step,do=flip"}});
    ASSERT_EQ(end.exit_code, 0) << end.output;
    EXPECT_EQ(count(end.output, "replicas differ"), 1) << end.output;
    EXPECT_THAT(end.output, HasSubstr("all ranks took the values of rank " +
                                      std::to_string(rank == 0 ? 1 : 0)));
    EXPECT_EQ(final_weights(end), final_weights(whole));
    const auto records = metrics(run_folder(sandbox, end), "divergence");
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0]["step"], 5);
    EXPECT_EQ(records[0]["elements"], 1);
    EXPECT_GT(records[0]["largest_difference"], 0);
  }
}

TEST(DamagedReplica, IsOnlyWarnedOfWhenAskedTo) {
  const Sandbox sandbox;
  for (int workers : {2, 4}) {
    const auto end =
        sandbox.run(sandbox.train(workers, {"consistency.every=4", "consistency.on_divergence=warn",
                                            "train.steps=10", "checkpoint.every_epochs=null"}),
                    {{"TRAIN_FAULT", "rank=1,step=5,at=after_step,do=flip"}});
    EXPECT_EQ(end.exit_code, 0) << end.output;
    EXPECT_EQ(count(end.output, "replicas differ after step 8"), 1) << end.output;
    EXPECT_EQ(count(end.output, "replicas differ after step 4"), 0) << end.output;
  }
}

// GRAD-5
TEST(NonFiniteGradient, StopsTheRunAndNamesRankAndStep) {
  for (const char* value : {"nan", "inf"}) {
    const Sandbox sandbox;
    const auto end =
        sandbox.run(sandbox.train(8, {"checkpoint.every_steps=1"}),
                    {{"TRAIN_FAULT", std::string("rank=3,step=4,at=gradient,do=") + value}});
    EXPECT_EQ(end.exit_code, 7) << end.output;
    EXPECT_THAT(end.last_line, AllOf(HasSubstr("step 4"), HasSubstr("not finite on rank 3 ")));
    EXPECT_THAT(newest_checkpoint_of(run_folder(sandbox, end)), HasSubstr("step-00000003.h5"));
  }
}

// All replicas alike, right after an update whose gradients were finite.
TEST(NonFiniteParameter, IsNotSaved) {
  const Sandbox sandbox;
  for (const char* const policy : {"train.on_nonfinite=stop", "train.on_nonfinite=skip"}) {
    const auto end =
        sandbox.run(sandbox.train(3, {"consistency.every=5", "checkpoint.every_steps=1", policy}),
                    {{"TRAIN_FAULT", "step=5,at=after_step,do=nan"}});
    EXPECT_EQ(end.exit_code, 7) << end.output;
    EXPECT_THAT(end.last_line, AllOf(HasSubstr("parameter 'output."),
                                     HasSubstr("is not finite after step 5 (1 of ")));
    EXPECT_THAT(newest_checkpoint_of(run_folder(sandbox, end)), HasSubstr("step-00000004.h5"));
  }
}

// By the update itself: each factor is finite, their product is not.
TEST(NonFiniteParameter, OfTheLastUpdateIsNotSaved) {
  const Sandbox sandbox;
  const auto end = sandbox.run(
      sandbox.train(2, {"optimizer.lr=1e30", "optimizer.weight_decay=1e30", "train.steps=1"}));
  EXPECT_EQ(end.exit_code, 7) << end.output;
  EXPECT_THAT(end.output, Not(HasSubstr("done: ")));
}

TEST(NonFiniteParameter, IsSavedWhereTheChecksAreTurnedOff) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(2, {"consistency.every=0", "checkpoint.every_steps=1",
                                                 "train.steps=5", "train.evaluate_every=0"}),
                               {{"TRAIN_FAULT", "step=5,at=after_step,do=inf"}});
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(newest_checkpoint_of(run_folder(sandbox, end)), HasSubstr("step-00000005.h5"));
}

TEST(NonFiniteGradient, IsSkippedOnAllRanks) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(8, {"train.on_nonfinite=skip", "consistency.every=1"}),
                               {{"TRAIN_FAULT", "rank=0,step=4,at=gradient,do=nan"}});
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_EQ(count(end.output, "skipped on all ranks"), 1);
  EXPECT_THAT(end.output, HasSubstr("step 4 are not finite on rank 0: skipped"));
  const auto weights = metrics(run_folder(sandbox, end), "weights");
  EXPECT_EQ(weights[2]["digest"], weights[3]["digest"]);
  EXPECT_NE(weights[3]["digest"], weights[4]["digest"]);
}

TEST(LossScale, IsLoweredOnOverflowAndSaved) {
  const Sandbox sandbox;
  const Arguments settings{"train.loss_scale=dynamic", "consistency.every=1",
                           "checkpoint.every_steps=6"};
  const auto end = sandbox.run(sandbox.train(8, settings),
                               {{"TRAIN_FAULT", "rank=3,step=4,at=gradient,do=inf"}});
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(
      end.output,
      HasSubstr(
          "step 4 are not finite on rank 3: skipped on all ranks, the loss scale is 32768 now"));
  const auto resumed = sandbox.run(sandbox.train(
      8, settings, {"--resume", run_folder(sandbox, end) + "/checkpoints/step-00000030.h5"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(final_weights(resumed), final_weights(end));
}

// A scale that is a power of two changes no bit while nothing over- or underflows.
TEST(LossScale, ChangesNoBit) {
  const Sandbox sandbox;
  const auto plain = sandbox.run(sandbox.train(4));
  const auto scaled = sandbox.run(sandbox.train(4, {"train.loss_scale=dynamic"}));
  ASSERT_EQ(scaled.exit_code, 0) << scaled.output;
  EXPECT_EQ(final_weights(plain), final_weights(scaled));
}

// DATA-6
TEST(NanInOneRow, IsNamedWithSampleAndRank) {
  const Sandbox sandbox;
  sandbox.put_nan(700, 5);
  const auto stopped = sandbox.run(sandbox.train(4));
  EXPECT_EQ(stopped.exit_code, 7) << stopped.output;
  EXPECT_THAT(stopped.last_line, AllOf(HasSubstr("sample 700 of 'data.h5'"), HasSubstr("element 5"),
                                       HasSubstr("rank ")));
  const auto skipped =
      sandbox.run(sandbox.train(4, {"train.on_nonfinite=skip", "consistency.every=1"}));
  EXPECT_EQ(skipped.exit_code, 0) << skipped.output;
  EXPECT_EQ(count(skipped.output, "sample 700 of 'data.h5'"), 2);  // once in each epoch
  for (const auto& step : metrics(run_folder(sandbox, skipped), "step"))
    EXPECT_TRUE(step["loss"].is_number());
}

}  // namespace
}  // namespace lockstep::tests

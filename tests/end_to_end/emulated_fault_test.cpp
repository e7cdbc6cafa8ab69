// What goes wrong on one of several emulated GPUs, and what becomes of the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/end_to_end/emulated_gpus.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Environment fault(const std::string& text, int number) {
  Environment environment = seed(number);
  environment["TRAIN_FAULT"] = text;
  return environment;
}

// GRAD-4
TEST(EmulatedReplica, ThatIsDamagedStopsTheRunAndIsNotSaved) {
  const Sandbox sandbox(few_rows);
  const auto end = sandbox.run(on_gpus(sandbox, 4, {"checkpoint.every_steps=1"}),
                               fault("rank=2,step=3,at=after_step,do=flip", 1));
  EXPECT_EQ(end.exit_code, 7) << end.output;
  EXPECT_THAT(end.last_line, AllOf(HasSubstr("rank 2 differs"), HasSubstr("step 3"),
                                   HasSubstr("(1 element, by up to ")));
  EXPECT_THAT(newest_checkpoint_of(run_folder(sandbox, end)), HasSubstr("step-00000002.h5"));
}

TEST(EmulatedReplica, ThatIsDamagedTakesTheValuesOfTheMajority) {
  const Sandbox sandbox(few_rows);
  const Arguments settings{"consistency.on_divergence=resync", "optimizer.momentum=0.9"};
  const auto whole = sandbox.run(on_gpus(sandbox, 3, settings), seed(3));
  const auto end =
      sandbox.run(on_gpus(sandbox, 3, settings), fault("rank=0,step=2,at=after_step,do=flip", 3));
  ASSERT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("all ranks took the values of rank 1"));
  EXPECT_EQ(final_weights(end), final_weights(whole));
}

TEST(EmulatedReplica, ThatIsDamagedIsOnlyWarnedOfWhenAskedTo) {
  const Sandbox sandbox(few_rows);
  const auto end = sandbox.run(
      on_gpus(sandbox, 2, {"consistency.on_divergence=warn", "checkpoint.every_epochs=null"}),
      fault("rank=1,step=4,at=after_step,do=flip", 2));
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("replicas differ after step 4: ranks 0 and 1 differ"));
}

TEST(EmulatedReplica, ThatIsNotFiniteIsNotSaved) {
  const Sandbox sandbox(few_rows);
  const auto end = sandbox.run(on_gpus(sandbox, 2, {"checkpoint.every_steps=1"}),
                               fault("step=3,at=after_step,do=nan", 4));
  EXPECT_EQ(end.exit_code, 7) << end.output;
  EXPECT_THAT(end.last_line, HasSubstr("is not finite after step 3 (1 of "));
  EXPECT_THAT(newest_checkpoint_of(run_folder(sandbox, end)), HasSubstr("step-00000002.h5"));
}

// GRAD-5
TEST(EmulatedGradient, ThatIsNotFiniteStopsTheRun) {
  const Sandbox sandbox(few_rows);
  const auto end = sandbox.run(on_gpus(sandbox, 3), fault("rank=1,step=3,at=gradient,do=nan", 6));
  EXPECT_EQ(end.exit_code, 7) << end.output;
  EXPECT_THAT(end.last_line, AllOf(HasSubstr("step 3"), HasSubstr("not finite on rank 1 ")));
}

TEST(EmulatedGradient, ThatIsNotFiniteIsSkippedOnAllRanks) {
  const Sandbox sandbox(few_rows);
  for (const char* const policy : {"train.on_nonfinite=skip", "train.loss_scale=dynamic"}) {
    const auto end = sandbox.run(on_gpus(sandbox, 3, {policy, "optimizer.name=adam"}),
                                 fault("rank=0,step=3,at=gradient,do=inf", 3));
    EXPECT_EQ(end.exit_code, 0) << end.output;
    EXPECT_THAT(end.output, HasSubstr("step 3 are not finite on rank 0: skipped on all ranks"));
    const auto weights = metrics(run_folder(sandbox, end), "weights");
    EXPECT_EQ(weights[1]["digest"], weights[2]["digest"]);
    EXPECT_NE(weights[2]["digest"], weights[3]["digest"]);
  }
}

// HANG-2
TEST(EmulatedRank, ThatFailsEndsTheOthers) {
  const Sandbox sandbox(few_rows);
  for (const char* const place : {"read", "forward", "before_allreduce"}) {
    const auto end = sandbox.run(on_gpus(sandbox, 3),
                                 fault(std::string("rank=1,step=2,do=raise,at=") + place, 2));
    EXPECT_NE(end.exit_code, 0);
    EXPECT_NE(end.exit_code, 99) << end.output;
    EXPECT_THAT(end.last_line, AllOf(HasSubstr("rank 1 in step 2"), HasSubstr(place)));
  }
}

// HANG-1: kernels of the others wait for it on their GPUs, until the deadline there.
TEST(EmulatedRank, ThatLaunchesNothingIsNamed) {
  const Sandbox sandbox(few_rows);
  const auto end = sandbox.run(on_gpus(sandbox, 3, {"comm.timeout=2"}),
                               fault("rank=2,step=3,at=forward,do=stall:30", 1));
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_THAT(end.last_line, HasSubstr("rank 2"));
  EXPECT_THAT(end.output, HasSubstr("rank 2 did not arrive"));
}

}  // namespace
}  // namespace lockstep::tests

// What a machine is told about itself: tuning tables of the all-reduce and cores for workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/end_to_end/sandbox.h"
#include "train/tuning_file.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TuningFile, IsUsedAndAResumedRunKeepsWhatItSaid) {
  const Sandbox sandbox;
  train::TuningFile tuning{train::this_machine(), {}};
  tuning.all_reduce["processes"][3] = "ring";
  train::write_tuning_file(sandbox.path("tuning.yaml"), tuning);
  const auto first =
      sandbox.run(sandbox.train(3, {"comm.tuning_file=tuning.yaml", "train.epochs=1"}));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  EXPECT_THAT(first.output, AllOf(HasSubstr("by the tuning file 'tuning.yaml': ring"),
                                  HasSubstr("all-reduced by ring")));
  const auto resumed = sandbox.run(sandbox.train(3, {}, {"--resume", run_folder(sandbox, first)}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_THAT(resumed.output,
              AllOf(HasSubstr("as before the checkpoint: ring"), HasSubstr("all-reduced by ring")));
  // Another number of workers sums in another order anyway.
  const auto fewer = sandbox.run(sandbox.train(2, {}, {"--resume", run_folder(sandbox, first)}));
  ASSERT_EQ(fewer.exit_code, 0) << fewer.output;
  EXPECT_THAT(fewer.output, Not(HasSubstr("as before the checkpoint")));
}

TEST(TuningFile, ThatDoesNotFitEndsTheRunBeforeItStarts) {
  const Sandbox sandbox;
  train::TuningFile tuning{{"Abacus", 2}, {}};
  tuning.all_reduce["processes"][3] = "ring";
  train::write_tuning_file(sandbox.path("tuning.yaml"), tuning);
  const auto other = sandbox.run(sandbox.train(3, {"comm.tuning_file=tuning.yaml"}));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.last_line,
              AllOf(HasSubstr("measured on Abacus with 2 cores"), HasSubstr("found")));
  EXPECT_THAT(other.output, Not(HasSubstr("files of this run")));
  const auto missing = sandbox.run(sandbox.train(3, {"comm.tuning_file=none.yaml"}));
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.last_line, HasSubstr("none.yaml"));
  const auto with_gloo = sandbox.run(sandbox.train(3, {"comm.tuning=ring"}, {"--backend", "gloo"}));
  EXPECT_EQ(with_gloo.exit_code, 2);
  EXPECT_THAT(with_gloo.output, HasSubstr("comm.tuning"));
}

TEST(PinnedWorkers, EndWithTheSameWeights) {
  const Sandbox sandbox;
  const auto free = sandbox.run(sandbox.train(2, {"compute.pin=off"}));
  ASSERT_EQ(free.exit_code, 0) << free.output;
  EXPECT_THAT(free.output, HasSubstr("not pinned, as asked"));
  const auto pinned = sandbox.run(sandbox.train(2));
  ASSERT_EQ(pinned.exit_code, 0) << pinned.output;
  EXPECT_THAT(pinned.output, AnyOf(HasSubstr("pinned to the cores"), HasSubstr("not pinned: ")));
  EXPECT_EQ(final_weights(free), final_weights(pinned));
}

}  // namespace
}  // namespace lockstep::tests

// data_parallel.sharding: optimizer, as a user of the program sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/backend.h"
#include "tests/end_to_end/sandbox.h"
#include "train/checkpoint.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Arguments sharded(Arguments settings) {
  settings.emplace_back("data_parallel.sharding=optimizer");
  settings.emplace_back("consistency.every=1");
  return settings;
}

TEST(Sharding, ChangesNoBitOfARun) {
  const Sandbox sandbox;
  const Arguments settings{"optimizer.name=adam", "data_parallel.bucket_mib=0.001",
                           "data_parallel.first_bucket_mib=0.0005", "optimizer.clip_norm=0.5",
                           "train.accumulate=2"};
  for (const char* launcher : {"processes", "threads"})
    for (const int workers : {1, 3}) {
      const Arguments more{"--launcher", launcher};
      const auto whole = sandbox.run(sandbox.train(workers, settings, more));
      ASSERT_EQ(whole.exit_code, 0) << whole.output;
      const auto shards = sandbox.run(sandbox.train(workers, sharded(settings), more));
      ASSERT_EQ(shards.exit_code, 0) << shards.output;
      EXPECT_EQ(final_weights(shards), final_weights(whole)) << launcher << ", " << workers;
      const auto expected =
                     train::summarize_checkpoint(newest_checkpoint_of(run_folder(sandbox, whole))),
                 found =
                     train::summarize_checkpoint(newest_checkpoint_of(run_folder(sandbox, shards)));
      EXPECT_EQ(found.optimizer_digest, expected.optimizer_digest);
    }
}

// Other backends may add in another order for a reduce-scatter than for an all-reduce.
TEST(Sharding, WorksOverEveryBackend) {
  const Sandbox sandbox;
  const auto one = sandbox.run(sandbox.train(1));
  ASSERT_EQ(one.exit_code, 0) << one.output;
  const auto expected = parameters_of(newest_checkpoint_of(run_folder(sandbox, one)));
  int worked = 0;
  for (const comm::Backend& backend : comm::backends()) {
    const auto& devices = backend.devices;
    if (!backend.built_in || !backend.missing().empty() ||
        std::find(devices.begin(), devices.end(), DeviceKind::cpu) == devices.end())
      continue;
    const auto end =
        sandbox.run(sandbox.train(3, sharded({}), {"--backend", std::string(backend.name)}));
    ASSERT_EQ(end.exit_code, 0) << end.output;
    EXPECT_LT(largest_relative_difference(
                  expected, parameters_of(newest_checkpoint_of(run_folder(sandbox, end)))),
              1e-5)
        << backend.name;
    ++worked;
  }
  EXPECT_GE(worked, 1);
}

TEST(Sharding, ResumesExactlyAndOnAnotherNumberOfWorkers) {
  const Sandbox sandbox;
  const Arguments settings = sharded(
      {"optimizer.name=adamw", "optimizer.lr=0.01", "train.steps=12", "checkpoint.every_steps=5"});
  const auto whole = sandbox.run(sandbox.train(4, settings));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const std::string middle = run_folder(sandbox, whole) + "/checkpoints/step-00000010.h5";
  const auto again = sandbox.run(sandbox.train(4, settings, {"--resume", middle}));
  ASSERT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(final_weights(again), final_weights(whole));
  const auto expected = parameters_of(newest_checkpoint_of(run_folder(sandbox, whole)));
  const Arguments unsharded{"optimizer.name=adamw", "optimizer.lr=0.01", "train.steps=12"};
  for (const auto& [workers, how] : {std::pair{3, settings}, {2, unsharded}}) {
    const auto other = sandbox.run(sandbox.train(workers, how, {"--resume", middle}));
    ASSERT_EQ(other.exit_code, 0) << other.output;
    EXPECT_LT(largest_relative_difference(
                  expected, parameters_of(newest_checkpoint_of(run_folder(sandbox, other)))),
              1e-5);
  }
}

// GRAD-5, where each rank sees a part of the averaged gradient only.
TEST(Sharding, AnOverflowOnOneRankIsDecidedByAll) {
  const Sandbox sandbox;
  const Environment fault{{"TRAIN_FAULT", "rank=3,step=4,at=gradient,do=inf"}};
  const auto stopped = sandbox.run(sandbox.train(4, sharded({})), fault);
  EXPECT_EQ(stopped.exit_code, 7) << stopped.output;
  EXPECT_THAT(stopped.last_line, AllOf(HasSubstr("step 4"), HasSubstr("rank 3")));
  const auto skipped =
      sandbox.run(sandbox.train(4, sharded({"train.on_nonfinite=skip", "train.epochs=1"})), fault);
  EXPECT_EQ(skipped.exit_code, 0) << skipped.output;
  EXPECT_THAT(skipped.output,
              AllOf(HasSubstr("step 4"), HasSubstr("rank 3"), HasSubstr("skipped")));
}

}  // namespace
}  // namespace lockstep::tests

// Checkpoints as a user of the program sees them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/end_to_end/sandbox.h"
#include "train/checkpoint.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// CKPT-1
TEST(Resume, IsExact) {
  const Sandbox sandbox;
  const Arguments settings{
      "optimizer.name=adam",      "optimizer.lr=0.01",      "schedule.name=cosine",
      "schedule.warmup_steps=3",  "model.dropout=0.3",      "train.steps=20",
      "checkpoint.every_steps=7", "checkpoint.keep_last=9", "run.log_level=debug"};
  const auto whole = sandbox.run(sandbox.train(4, settings));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const std::string folder = run_folder(sandbox, whole);
  const auto resumed = sandbox.run(
      sandbox.train(4, settings, {"--resume", folder + "/checkpoints/step-00000007.h5"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  const std::string resumed_folder = run_folder(sandbox, resumed);

  const auto expected = train::summarize_checkpoint(newest_checkpoint_of(folder));
  const auto found = train::summarize_checkpoint(newest_checkpoint_of(resumed_folder));
  EXPECT_EQ(found.progress.steps_done, 20);
  EXPECT_EQ(found.weights_digest, expected.weights_digest);
  EXPECT_EQ(found.optimizer_digest, expected.optimizer_digest);
  EXPECT_EQ(final_weights(resumed), final_weights(whole));
  // The state that was restored is not an empty one.
  const auto start = train::summarize_checkpoint(folder + "/checkpoints/step-00000007.h5");
  EXPECT_NE(start.optimizer_digest, expected.optimizer_digest);

  const auto all = metrics(folder, "step");
  const auto rest = metrics(resumed_folder, "step");
  ASSERT_EQ(all.size(), 20u);
  ASSERT_EQ(rest.size(), 13u);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    for (const char* key : {"step", "epoch", "loss", "accuracy", "lr", "samples"})
      EXPECT_EQ(rest[i][key], all[i + 7][key]) << key << " of step " << i + 8;
  }
  auto indices = sample_indices(folder, 4);
  for (std::int64_t step = 1; step <= 7; ++step) indices.erase(step);
  EXPECT_EQ(sample_indices(resumed_folder, 4), indices);
}

// Also from those that were saved after the last step of an epoch, and at the end of the run.
TEST(Resume, IsExactFromEveryStep) {
  const Sandbox sandbox(MadeData{.training_samples = 67, .test_samples = 23});
  const Arguments settings{"train.batch_size=16", "train.epochs=2", "checkpoint.every_steps=1",
                           "checkpoint.keep_last=20", "optimizer.momentum=0.9"};
  const auto whole = sandbox.run(sandbox.train(2, settings));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const std::string folder = run_folder(sandbox, whole);
  for (int step = 1; step <= 10; ++step) {
    const std::string file = fmt::format("{}/checkpoints/step-{:08}.h5", folder, step);
    EXPECT_EQ(train::summarize_checkpoint(file).progress.epoch, step / 5);
    EXPECT_EQ(train::summarize_checkpoint(file).progress.step_in_epoch, step % 5);
    const auto resumed = sandbox.run(sandbox.train(2, settings, {"--resume", file}));
    EXPECT_EQ(resumed.exit_code, 0) << step << ": " << resumed.output;
    EXPECT_EQ(final_weights(resumed), final_weights(whole)) << step;
    EXPECT_EQ(metrics(run_folder(sandbox, resumed), "epoch").size(),
              static_cast<std::size_t>(2 - step / 5));
  }
}

// A request to stop comes in the last step of an epoch here, as epochs have only one.
TEST(Resume, GoesOnWhereASignalStoppedIt) {
  const Sandbox sandbox;
  const Arguments settings{"train.batch_size=1003", "train.epochs=100000",
                           "checkpoint.every_epochs=100000"};
  Program program(sandbox.train(2, settings), sandbox.options());
  program.wait_for_output("epoch 3/100000 done");
  program.signal(SIGINT);
  const auto end = program.wait();
  EXPECT_EQ(end.exit_code, 130) << end.output;
  const auto file = newest_checkpoint_of(run_folder(sandbox, end));
  const auto steps = train::summarize_checkpoint(file).progress.steps_done;
  const auto resumed = sandbox.run(sandbox.train(
      2, {"train.batch_size=1003", fmt::format("train.epochs={}", steps + 2)}, {"--resume", file}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(metrics(run_folder(sandbox, resumed), "step").size(), 2u);
}

TEST(Resume, InShorterEpochsIsRefused) {
  const Sandbox sandbox;
  const auto first = sandbox.run(sandbox.train(2, {"train.steps=9", "train.batch_size=64"}));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const auto end = sandbox.run(sandbox.train(
      2, {"train.batch_size=256"}, {"--resume", newest_checkpoint_of(run_folder(sandbox, first))}));
  EXPECT_EQ(end.exit_code, 2) << end.output;
  EXPECT_THAT(end.last_line, AllOf(HasSubstr("after step 9 of an epoch, which has 4 steps"),
                                   HasSubstr("train.batch_size")));
}

TEST(Resume, OnAnotherNumberOfWorkersReadsTheRestOnce) {
  const Sandbox sandbox;
  const auto first = sandbox.run(sandbox.train(8, {"train.steps=5", "run.log_level=debug"}));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const auto whole = sandbox.run(sandbox.train(1, {"run.log_level=debug"}));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const auto expected = parameters_of(newest_checkpoint_of(run_folder(sandbox, whole)));
  for (int workers : {4, 1, 3}) {
    const auto rest = sandbox.run(
        sandbox.train(workers, {"run.log_level=debug"}, {"--resume", run_folder(sandbox, first)}));
    ASSERT_EQ(rest.exit_code, 0) << rest.output;
    std::vector<bool> seen(1003);
    for (const auto* part : {&first, &rest}) {
      const int ranks = part == &first ? 8 : workers;
      for (const auto& [step, by_rank] : sample_indices(run_folder(sandbox, *part), ranks)) {
        if (step > 16) continue;  // of the first epoch
        for (const auto& indices : by_rank)
          for (auto index : indices) {
            EXPECT_FALSE(seen[static_cast<std::size_t>(index)]) << index << " was read twice";
            seen[static_cast<std::size_t>(index)] = true;
          }
      }
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
    // Sums are formed in another order on another number of workers.
    EXPECT_LT(largest_relative_difference(
                  expected, parameters_of(newest_checkpoint_of(run_folder(sandbox, rest)))),
              1e-5);
  }
}

TEST(Resume, WithoutAPathTakesTheNewestRun) {
  const Sandbox sandbox;
  const auto first = sandbox.run(sandbox.train(2, {"train.epochs=1"}));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const auto second = sandbox.run(sandbox.train(2, {}, {"--resume"}));
  ASSERT_EQ(second.exit_code, 0) << second.output;
  EXPECT_THAT(second.output, HasSubstr("resumed from"));
  EXPECT_EQ(metrics(run_folder(sandbox, second), "step").front()["step"], 17);
}

TEST(Inspect, TellsStepWorldSizeAndDigests) {
  const Sandbox sandbox;
  const auto trained = sandbox.run(sandbox.train(3, {"train.steps=4"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const auto shown =
      sandbox.run({train_program, "inspect", newest_checkpoint_of(run_folder(sandbox, trained))});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.output, HasSubstr("step        4\n"));
  EXPECT_THAT(shown.output, HasSubstr("world size  3\n"));
  EXPECT_THAT(shown.output, HasSubstr(final_weights(trained)));
  const auto missing = sandbox.run({train_program, "inspect", "nothing.h5"});
  EXPECT_EQ(missing.exit_code, 4);
  EXPECT_THAT(missing.output, HasSubstr("nothing.h5"));
}

}  // namespace
}  // namespace lockstep::tests

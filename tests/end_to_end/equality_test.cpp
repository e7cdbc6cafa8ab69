// The same training for any number of workers, and the same again for the same seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/end_to_end/sandbox.h"

namespace lockstep::tests {
namespace {

using ::testing::HasSubstr;

// GRAD-1: 1,003 samples in batches of 64, the last one 43. Sums over ranks are formed in another
// order, so weights agree up to rounding.
class AnyNumberOfWorkers : public ::testing::TestWithParam<std::pair<const char*, double>> {};
INSTANTIATE_TEST_SUITE_P(Types, AnyNumberOfWorkers,
                         ::testing::Values(std::pair{"float32", 1e-5},
                                           std::pair{"float64", 1e-10}));

TEST_P(AnyNumberOfWorkers, ComputesWhatOneDoes) {
  const Sandbox sandbox;
  const auto [dtype, bound] = GetParam();
  const Arguments settings{std::string("train.dtype=") + dtype, "train.epochs=3"};
  const auto one = sandbox.run(sandbox.train(1, settings));
  ASSERT_EQ(one.exit_code, 0) << one.output;
  const auto weights = parameters_of(newest_checkpoint_of(run_folder(sandbox, one)));
  const auto epochs = metrics(run_folder(sandbox, one), "epoch");
  ASSERT_EQ(epochs.size(), 3u);
  for (int workers : {2, 3, 4, 8}) {
    const auto end = sandbox.run(sandbox.train(workers, settings));
    ASSERT_EQ(end.exit_code, 0) << end.output;
    const std::string folder = run_folder(sandbox, end);
    EXPECT_LT(largest_relative_difference(weights, parameters_of(newest_checkpoint_of(folder))),
              bound)
        << workers << " workers";
    const auto found = metrics(folder, "epoch");
    ASSERT_EQ(found.size(), epochs.size());
    for (std::size_t e = 0; e < epochs.size(); ++e) {
      EXPECT_EQ(found[e]["samples"], 1003);
      EXPECT_NEAR(found[e]["loss"].get<double>(), epochs[e]["loss"].get<double>(), 1e-5);
    }
    const auto evaluation = metrics(folder, "evaluation").back();
    EXPECT_EQ(evaluation["samples"], 203);
    EXPECT_NEAR(evaluation["loss"].get<double>(),
                metrics(run_folder(sandbox, one), "evaluation").back()["loss"].get<double>(), 1e-5);
  }
}

// The digests of all ranks are compared after each step, and a difference would end the run.
TEST(Replicas, HoldTheSameBitsAfterEveryStepInEveryWorld) {
  const Sandbox sandbox;
  for (const char* launcher : {"processes", "threads"})
    for (int workers = 1; workers <= 9; ++workers) {
      const auto end = sandbox.run(sandbox.train(
          workers, {"train.epochs=1", "optimizer.momentum=0.9", "consistency.every=1"},
          {"--launcher", launcher}));
      ASSERT_EQ(end.exit_code, 0) << end.output;
      EXPECT_EQ(metrics(run_folder(sandbox, end), "weights").size(), 16u);
    }
}

TEST(Launchers, ProcessesAndThreadsGiveTheSameBits) {
  const Sandbox sandbox;
  const auto processes = sandbox.run(sandbox.train(4));
  const auto threads = sandbox.run(sandbox.train(4, {}, {"--launcher", "threads"}));
  ASSERT_EQ(processes.exit_code, 0) << processes.output;
  ASSERT_EQ(threads.exit_code, 0) << threads.output;
  EXPECT_EQ(final_weights(processes), final_weights(threads));
}

TEST(Threads, OfAWorkerChangeNoBit) {
  const Sandbox sandbox;
  const auto one = sandbox.run(sandbox.train(2, {"compute.threads=1"}));
  const auto three = sandbox.run(sandbox.train(2, {"compute.threads=3"}));
  ASSERT_EQ(three.exit_code, 0) << three.output;
  EXPECT_EQ(final_weights(one), final_weights(three));
}

TEST(Algorithms, KeepReplicasEqual) {
  const Sandbox sandbox;
  for (const char* algorithm : {"two_shot", "ring"}) {
    const auto end = sandbox.run(
        sandbox.train(3, {std::string("comm.algorithm=") + algorithm, "consistency.every=1"}));
    EXPECT_EQ(end.exit_code, 0) << algorithm << ": " << end.output;
  }
}

TEST(Accumulation, EqualsTheWholeBatch) {
  const Sandbox sandbox;
  const auto whole = sandbox.run(sandbox.train(1));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const auto weights = parameters_of(newest_checkpoint_of(run_folder(sandbox, whole)));
  for (int workers : {2, 4}) {
    const auto end =
        sandbox.run(sandbox.train(workers, {"train.accumulate=4", "consistency.every=1"}));
    ASSERT_EQ(end.exit_code, 0) << end.output;
    EXPECT_LT(largest_relative_difference(
                  weights, parameters_of(newest_checkpoint_of(run_folder(sandbox, end)))),
              1e-5);
  }
}

std::string digest_of(const Program::End& end, const std::string& before) {
  const auto at = end.output.find(before);
  return at == end.output.npos ? "" : end.output.substr(at + before.size(), 32);
}

// GRAD-6, and DATA-2: the indices of an epoch over all ranks.
TEST(Seeds, DecideWeightsAndOrder) {
  const Sandbox sandbox;
  const Arguments settings{"model.dropout=0.5", "run.log_level=debug", "train.epochs=3"};
  const auto first = sandbox.run(sandbox.train(4, settings));
  const auto second = sandbox.run(sandbox.train(4, settings));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const std::string folder = run_folder(sandbox, first);
  for (int rank = 1; rank < 4; ++rank)
    EXPECT_THAT(rank_log(folder, rank),
                HasSubstr("initial weights " + digest_of(first, "initial weights ")));
  EXPECT_EQ(final_weights(first), final_weights(second));

  const auto by_step = sample_indices(folder, 4);
  EXPECT_EQ(by_step, sample_indices(run_folder(sandbox, second), 4));
  ASSERT_EQ(by_step.size(), 48u);
  std::vector<std::vector<std::int64_t>> epochs(3);
  for (const auto& [step, by_rank] : by_step)
    for (const auto& indices : by_rank) {
      auto& epoch = epochs[static_cast<std::size_t>((step - 1) / 16)];
      epoch.insert(epoch.end(), indices.begin(), indices.end());
    }
  for (auto& epoch : epochs) {
    ASSERT_EQ(epoch.size(), 1003u);
    EXPECT_EQ(std::set<std::int64_t>(epoch.begin(), epoch.end()).size(), 1003u);
    EXPECT_FALSE(std::is_sorted(epoch.begin(), epoch.end()));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(Seeds, NoShuffleGivesTheOrderOfTheFile) {
  const Sandbox sandbox;
  const auto end = sandbox.run(
      sandbox.train(4, {"data.shuffle=false", "run.log_level=debug", "train.epochs=1"}));
  ASSERT_EQ(end.exit_code, 0) << end.output;
  std::vector<std::int64_t> all;
  for (const auto& [step, by_rank] : sample_indices(run_folder(sandbox, end), 4))
    for (const auto& indices : by_rank) all.insert(all.end(), indices.begin(), indices.end());
  ASSERT_EQ(all.size(), 1003u);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<std::int64_t>(i));
}

TEST(Seeds, OfTheMachineAreLoggedAndDiffer) {
  const Sandbox sandbox;
  const auto first = sandbox.run(sandbox.train(2, {"seed=null"}));
  const auto second = sandbox.run(sandbox.train(2, {"seed=null"}));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("drew "));
  EXPECT_NE(final_weights(first), final_weights(second));
  const auto seed = first.output.substr(first.output.find("drew ") + 5);
  const auto again = sandbox.run(sandbox.train(2, {"seed=" + seed.substr(0, seed.find('\n'))}));
  EXPECT_EQ(final_weights(again), final_weights(first));
}

// GRAD-7: stalls of 5 to 20 ms here and there.
TEST(Repeatable, WhateverTheTiming) {
  const Sandbox sandbox;
  const Arguments command = sandbox.train(4, {"optimizer.momentum=0.9", "consistency.every=1"});
  std::set<std::string> digests;
  const std::string places[] = {"read", "forward", "before_allreduce"};
  for (int run = 0; run < 5; ++run) {
    Environment environment;
    if (run >= 2) {
      std::string faults;
      for (int i = 0; i < 6; ++i)
        faults += "rank=" + std::to_string((i * 7 + run) % 4) +
                  ",step=" + std::to_string(2 + (i * 5 + run) % 28) +
                  ",at=" + places[static_cast<std::size_t>(i + run) % 3] + ",do=stall:0.0" +
                  (i % 2 == 0 ? "05" : "20") + (i < 5 ? ";" : "");
      environment["TRAIN_FAULT"] = faults;
    }
    const auto end = sandbox.run(command, environment);
    ASSERT_EQ(end.exit_code, 0) << end.output;
    digests.insert(final_weights(end));
  }
  EXPECT_EQ(digests.size(), 1u);
}

// DATA-1
TEST(FewSamples, TrainAsOneWorkerDoes) {
  const Sandbox sandbox({.training_samples = 3, .test_samples = 2});
  const auto one = sandbox.run(sandbox.train(1, {"train.epochs=5"}));
  const auto eight = sandbox.run(sandbox.train(8, {"train.epochs=5"}));
  ASSERT_EQ(one.exit_code, 0) << one.output;
  ASSERT_EQ(eight.exit_code, 0) << eight.output;
  EXPECT_LT(
      largest_relative_difference(parameters_of(newest_checkpoint_of(run_folder(sandbox, one))),
                                  parameters_of(newest_checkpoint_of(run_folder(sandbox, eight)))),
      1e-5);
}

TEST(FewSamples, NothingToDoIsAnError) {
  const Sandbox empty({.training_samples = 0});
  const auto none = empty.run(empty.train(8));
  EXPECT_EQ(none.exit_code, 3) << none.output;
  EXPECT_THAT(none.output, HasSubstr("0 samples"));
  const Sandbox sandbox;
  const auto dropped =
      sandbox.run(sandbox.train(8, {"data.drop_last=true", "train.batch_size=2000"}));
  EXPECT_EQ(dropped.exit_code, 3) << dropped.output;
  EXPECT_THAT(dropped.output, HasSubstr("2000"));
  EXPECT_THAT(dropped.output, HasSubstr("1003"));
}

}  // namespace
}  // namespace lockstep::tests

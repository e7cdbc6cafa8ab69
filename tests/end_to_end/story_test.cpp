// What a run tells: one story over all ranks, and where the time goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "tests/end_to_end/sandbox.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

int lines_with(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(part) != line.npos;
  return count;
}

// LOG-1
TEST(Log, TellsCommonThingsOnce) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(8, {"train.epochs=2"}));
  ASSERT_EQ(end.exit_code, 0) << end.output;
  for (const char* part : {"world size 8", "model mlp", "data 'data.h5'", "buckets:",
                           "epoch 1/2 done", "epoch 2/2 done", "files of this run", "done: "})
    EXPECT_EQ(lines_with(end.output, part), 1) << part << " in\n" << end.output;
  EXPECT_THAT(rank_log(run_folder(sandbox, end), 5), HasSubstr("rank 5: "));
}

TEST(Log, LossIsTheMeanOverAllSamples) {
  const Sandbox sandbox;
  const auto one = sandbox.run(sandbox.train(1, {"train.epochs=1"}));
  const auto four = sandbox.run(sandbox.train(4, {"train.epochs=1"}));
  const auto expected = metrics(run_folder(sandbox, one), "step");
  const auto found = metrics(run_folder(sandbox, four), "step");
  ASSERT_EQ(found.size(), 16u);
  double sum = 0, samples = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i]["loss"].get<double>(), expected[i]["loss"].get<double>(), 1e-5)
        << "step " << i + 1;
    EXPECT_EQ(found[i]["samples"], i == 15 ? 43 : 64);
    sum += found[i]["loss"].get<double>() * found[i]["samples"].get<double>();
    samples += found[i]["samples"].get<double>();
  }
  EXPECT_NEAR(metrics(run_folder(sandbox, four), "epoch")[0]["loss"].get<double>(), sum / samples,
              1e-9);
}

TEST(Log, SharesOfTheStepAddUp) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(4, {"train.epochs=1", "data_parallel.overlap=false"}));
  ASSERT_EQ(end.exit_code, 0) << end.output;
  // The wait for data is the mean over the ranks, which do not begin a step at the same time: what
  // is too much for one step is missing in another.
  double parts = 0, whole = 0;
  for (const auto& step : metrics(run_folder(sandbox, end), "step")) {
    EXPECT_GT(step["communication_seconds"].get<double>(), 0);
    parts += step["exposed_seconds"].get<double>() + step["data_wait_seconds"].get<double>();
    whole += step["seconds"].get<double>();
  }
  EXPECT_LE(parts, whole * 1.05);
}

// PERF-3: every read takes 50 ms.
TEST(SlowData, IsSaidAndPrefetchHidesWhatItCan) {
  const Sandbox sandbox;
  const Environment slow{{"TRAIN_FAULT", "at=read,do=stall:0.05"}};
  const auto without = sandbox.run(sandbox.train(2, {"train.epochs=1", "data.prefetch=0"}), slow);
  ASSERT_EQ(without.exit_code, 0) << without.output;
  EXPECT_THAT(without.output, HasSubstr("waits for data"));
  const auto epoch = metrics(run_folder(sandbox, without), "epoch")[0];
  EXPECT_GT(epoch["data_wait_share"].get<double>(), 0.5);
  EXPECT_GE(epoch["seconds"].get<double>(), 16 * 0.05);

  // A step of 70 ms hides a read of 50 ms behind it.
  const Environment slow_steps{{"TRAIN_FAULT", "at=read,do=stall:0.05;at=forward,do=stall:0.07"}};
  const auto hidden =
      sandbox.run(sandbox.train(2, {"train.epochs=1", "data.prefetch=2"}), slow_steps);
  ASSERT_EQ(hidden.exit_code, 0) << hidden.output;
  EXPECT_LT(metrics(run_folder(sandbox, hidden), "epoch")[0]["data_wait_share"].get<double>(), 0.2);
  EXPECT_THAT(hidden.output, Not(HasSubstr("waits for data")));
}

TEST(Threads, OfAWorkerDefaultToItsShareOfTheCores) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(8, {"train.epochs=1"}));
  EXPECT_THAT(end.output, HasSubstr("1 thread each"));
}

// DATA-4: a file is opened by the process that reads it, and closed when its rows are in memory.
TEST(DataFile, IsNotHeldOpenByTheLauncher) {
  const Sandbox sandbox;
  Program program(sandbox.train(4, {"train.epochs=100000"}), sandbox.options());
  program.wait_for_output("epoch 1/100000 done");
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(program.pid()) + "/fd")) {
    std::error_code ignored;
    EXPECT_THAT(std::filesystem::read_symlink(entry.path(), ignored).string(),
                Not(HasSubstr("data.h5")));
  }
  program.signal(SIGKILL);
  program.wait();
}

}  // namespace
}  // namespace lockstep::tests

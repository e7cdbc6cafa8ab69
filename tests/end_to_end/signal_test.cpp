// Interrupts, and a launcher that is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>

#include "tests/end_to_end/sandbox.h"
#include "tests/support/shared_memory.h"
#include "train/checkpoint.h"

namespace lockstep::tests {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Arguments endless{"train.epochs=100000", "checkpoint.every_epochs=1000",
                        "train.evaluate_every=0"};

// SIG-1
class InterruptedRun : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Launchers, InterruptedRun, ::testing::Values("processes", "threads"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(InterruptedRun, StopsAllRanksAtOneStepAndSaves) {
  for (int signal : {SIGINT, SIGTERM}) {
    const Sandbox sandbox;
    Program program(sandbox.train(4, endless, {"--launcher", GetParam()}), sandbox.options());
    program.wait_for_output("epoch 1/100000 done");
    if (signal == SIGINT)
      program.signal_group(signal);
    else
      program.signal(signal);
    const auto end = program.wait();
    EXPECT_EQ(end.exit_code, signal == SIGINT ? 130 : 143) << end.output;
    EXPECT_LT(end.seconds, 10);
    EXPECT_TRUE(program.is_gone(1s));
    const std::string folder = run_folder(sandbox, end);
    const auto step = metrics(folder, "step").back()["step"].get<std::int64_t>();
    EXPECT_THAT(end.output, HasSubstr("stopped after step " + std::to_string(step)));
    EXPECT_EQ(train::summarize_checkpoint(newest_checkpoint_of(folder)).progress.steps_done, step);
  }
}

TEST(Interrupted, WhileRanksAreAwaited) {
  const Sandbox sandbox;
  Program program(sandbox.train(4),
                  sandbox.options({{"TRAIN_FAULT", "rank=2,at=start,do=stall:60"}}));
  program.wait_for_output("strikes rank 2");
  program.signal(SIGTERM);
  const auto end = program.wait();
  EXPECT_EQ(end.exit_code, 143) << end.output;
  EXPECT_LT(end.seconds, 12);
  EXPECT_TRUE(program.is_gone(1s));
}

TEST(Interrupted, DuringASave) {
  const Sandbox sandbox;
  Program program(sandbox.train(4, {"checkpoint.every_steps=5"}),
                  sandbox.options({{"TRAIN_FAULT", "rank=0,step=10,at=save,do=stall:1"}}));
  program.wait_for_output("strikes rank 0");
  program.signal_group(SIGINT);
  const auto end = program.wait();
  EXPECT_EQ(end.exit_code, 130) << end.output;
  EXPECT_TRUE(program.is_gone(1s));
  EXPECT_NO_THROW(train::summarize_checkpoint(newest_checkpoint_of(run_folder(sandbox, end))));
}

TEST(Interrupted, TwiceEndsAtOnce) {
  const Sandbox sandbox;
  Program program(sandbox.train(4),
                  sandbox.options({{"TRAIN_FAULT", "rank=1,step=5,at=forward,do=stall:60"}}));
  program.wait_for_output("strikes rank 1");
  program.signal(SIGINT);
  std::this_thread::sleep_for(200ms);
  program.signal(SIGINT);
  const auto end = program.wait();
  EXPECT_EQ(end.exit_code, 130) << end.output;
  EXPECT_LT(end.seconds, 5);
  EXPECT_TRUE(program.is_gone(1s));
}

// SIG-2
TEST(KilledLauncher, TakesItsWorkersAlong) {
  const Sandbox sandbox;
  Program program(sandbox.train(8, endless), sandbox.options());
  program.wait_for_output("epoch 1/100000 done");
  program.signal(SIGKILL);
  EXPECT_TRUE(program.is_gone(5s));
  EXPECT_EQ(program.wait().exit_code, 128 + SIGKILL);
}

TEST(KilledLauncher, TakesAFrozenWorkerAndTheOnesItBlocksAlong) {
  const Sandbox sandbox;
  Program program(sandbox.train(4, endless), sandbox.options());
  program.wait_for_output("epoch 1/100000 done");
  const pid_t frozen = program.worker(2);
  kill(frozen, SIGSTOP);
  std::this_thread::sleep_for(300ms);  // the others block
  program.signal(SIGKILL);
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  while (std::chrono::steady_clock::now() < deadline) {
    const auto running = program.running();
    if (running.empty() || (running.size() == 1 && running[0] == frozen)) break;
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_LE(program.running().size(), 1u);
  kill(frozen, SIGCONT);
  EXPECT_TRUE(program.is_gone(2s));
  program.wait();
}

// SHM-2: memory of this kind cannot pile up, for it has no name; other runs are left alone.
TEST(KilledRuns, LeaveNoSharedMemory) {
  const Sandbox sandbox;
  Program live(sandbox.train(2, endless), sandbox.options());
  live.wait_for_output("epoch 1/100000 done");
  for (int run = 0; run < 10; ++run) {
    Program program(sandbox.train(8, {"model.hidden=[512, 512]", "train.epochs=100000"}),
                    sandbox.options());
    program.wait_for_output("buckets:");
    std::set<std::string> memory;
    for (const pid_t process : program.running()) memory.merge(shared_memory_of(process));
    for (const std::string& own : shared_memory_of(getpid())) memory.erase(own);  // the output's
    EXPECT_THAT(memory, Contains(HasSubstr("memfd")));
    program.signal_group(SIGKILL);
    EXPECT_TRUE(program.is_gone(5s));
    program.wait();
    EXPECT_THAT(still_there(memory), IsEmpty());
  }
  const auto normal = sandbox.run(sandbox.train(4, {"train.epochs=1"}));
  EXPECT_EQ(normal.exit_code, 0) << normal.output;
  live.signal(SIGINT);
  EXPECT_EQ(live.wait().exit_code, 130);
}

}  // namespace
}  // namespace lockstep::tests

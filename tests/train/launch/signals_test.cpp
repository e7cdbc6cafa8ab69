// Ends from outside: signals from the user, a launcher or a worker that is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "tests/support/program.h"
#include "tests/train/launch/bodies.h"

namespace lockstep::train::testing {
namespace {

using tests::Program;

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LaunchSignals, SigintAndSigtermStopTheRanks) {
  for (const std::string kind : {"processes", "threads"}) {
    for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
      Program program(launcher({"body=steps", "workers=3", "kind=" + kind}));
      program.wait_for_output("ready", 3);
      program.signal(signal);
      const auto end = program.wait();
      EXPECT_EQ(end.exit_code, code) << end.output;
      EXPECT_THAT(end.last_line, HasSubstr(signal == SIGINT ? "stopped by SIGINT in step"
                                                            : "stopped by SIGTERM in step"));
      EXPECT_THAT(end.output, Not(HasSubstr("killed")));
      EXPECT_TRUE(program.is_gone(0ms));
    }
  }
}

TEST(LaunchSignals, TheTerminalsSigintLeavesTheRanksTheTimeToStop) {
  Program program(launcher({"body=steps", "workers=3"}));
  program.wait_for_output("ready", 3);
  program.signal_group(SIGINT);
  const auto end = program.wait();
  EXPECT_EQ(end.exit_code, 130) << end.output;
  EXPECT_THAT(end.output, Not(HasSubstr("killed")));
}

TEST(LaunchSignals, SigtermToAllProcessesAtOnceCountsOnce) {
  Program program(launcher({"body=steps", "workers=3"}));
  program.wait_for_output("ready", 3);
  program.signal_group(SIGTERM);
  const auto end = program.wait();
  EXPECT_EQ(end.exit_code, 143) << end.output;
  EXPECT_THAT(end.output, Not(HasSubstr("killed")));
}

TEST(LaunchSignals, SigtermToAWorkerStopsTheRun) {
  Program program(launcher({"body=steps", "workers=3"}));
  program.wait_for_output("ready", 3);
  ::kill(program.worker(1), SIGTERM);
  const auto end = program.wait();
  EXPECT_EQ(end.exit_code, 143) << end.output;
  EXPECT_THAT(end.output, Not(HasSubstr("killed")));
}

TEST(LaunchSignals, ASecondSignalEndsTheRunAtOnce) {
  for (const std::string kind : {"processes", "threads"}) {
    Program program(launcher({"body=deaf", "workers=3", "kind=" + kind}));
    program.wait_for_output("ready", 3);
    program.signal(SIGINT);
    program.wait_for_output("stopping");
    program.signal(SIGINT);
    const auto end = program.wait();
    EXPECT_EQ(end.exit_code, 130) << end.output;
    EXPECT_LT(end.seconds, 30);
    EXPECT_TRUE(program.is_gone(0ms));
  }
}

TEST(LaunchSignals, RanksThatDoNotStopAreKilled) {
  Program program(launcher({"body=deaf", "workers=3", "stop_grace=500"}));
  program.wait_for_output("ready", 3);
  program.signal(SIGTERM);
  const auto end = program.wait();
  EXPECT_EQ(end.exit_code, 143) << end.output;
  EXPECT_THAT(end.output, HasSubstr("ranks 0, 1 and 2 did not end in time and had to be killed"));
}

TEST(LaunchSignals, BeforeTheFirstStepThereIsNothingToWaitFor) {
  for (const std::string kind : {"processes", "threads"}) {
    Program program(launcher({"body=before_first_step", "workers=3", "kind=" + kind}));
    program.wait_for_output("ready", 3);
    program.signal(SIGINT);
    const auto end = program.wait();
    EXPECT_EQ(end.exit_code, 130) << end.output;
    EXPECT_THAT(end.last_line, HasSubstr("stopped by SIGINT before its first step"));
    EXPECT_LT(end.seconds, 30);
  }
}

TEST(LaunchSignals, AKilledWorkerEndsTheRun) {
  Program program(launcher({"body=deaf", "workers=4"}));
  program.wait_for_output("ready", 4);
  ::kill(program.worker(3), SIGKILL);
  const auto end = program.wait();
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_THAT(end.last_line, HasSubstr("rank 3 was killed by signal 9 (SIGKILL) in step 1"));
  EXPECT_THAT(end.output, Not(HasSubstr("had to be killed")));  // the others left by themselves
  EXPECT_TRUE(program.is_gone(0ms));
}

TEST(LaunchSignals, AKilledWorkerEndsTheRunThoughAnotherIsFrozen) {
  Program program(launcher({"body=deaf", "workers=4"}));
  program.wait_for_output("ready", 4);
  ::kill(program.worker(1), SIGSTOP);
  ::kill(program.worker(3), SIGKILL);
  const auto end = program.wait();
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_THAT(end.output, HasSubstr("rank 1 did not end in time"));
  EXPECT_THAT(end.last_line, HasSubstr("rank 3 was killed by signal 9"));
}

TEST(LaunchSignals, NoWorkerOutlivesItsLauncher) {
  for (const char* const body : {"body=steps", "body=deaf", "body=before_first_step"}) {
    Program program(launcher({body, "workers=4"}));
    program.wait_for_output("ready", 4);
    const pid_t frozen = program.worker(2);
    ::kill(frozen, SIGSTOP);
    program.signal(SIGKILL);
    EXPECT_EQ(program.wait().exit_code, 128 + SIGKILL);
    ::kill(frozen, SIGCONT);
    EXPECT_TRUE(program.is_gone(5s)) << body;
  }
}

// Killed at any moment of the start, too.
TEST(LaunchSignals, NoWorkerOutlivesALauncherThatIsKilledEarly) {
  for (int delay = 0; delay < 30; delay += 2) {
    Program program(launcher({"body=deaf", "workers=4"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    program.signal(SIGKILL);
    program.wait();
    EXPECT_TRUE(program.is_gone(5s)) << delay;
  }
}

}  // namespace
}  // namespace lockstep::train::testing

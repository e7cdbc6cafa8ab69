#include "train/launch/launch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "comm/store/socket.h"
#include "framework/base/error.h"
#include "tests/support/program.h"
#include "tests/train/launch/bodies.h"

namespace lockstep::train::testing {
namespace {

using tests::Program;

using ::testing::EndsWith;
using ::testing::HasSubstr;

class EachKind : public ::testing::TestWithParam<std::string> {
 protected:
  Program::End run_kind(std::vector<std::string> arguments) {
    arguments.push_back("kind=" + GetParam());
    return tests::run(launcher(arguments));
  }
};
INSTANTIATE_TEST_SUITE_P(Launch, EachKind, ::testing::Values("processes", "threads"),
                         [](const auto& test) { return test.param; });

// Far below the 60 s for which the bodies stall, far above what a busy machine takes.
constexpr double soon = 30;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_P(EachKind, RunsEveryRankAndHandsItTheSettings) {
  for (const int workers : {1, 2, 5}) {
    const auto end = run_kind({"body=finish", fmt::format("workers={}", workers), "note=a=b c"});
    EXPECT_EQ(end.exit_code, 0) << end.output;
    for (int rank = 0; rank < workers; ++rank) {
      EXPECT_THAT(end.output, HasSubstr(fmt::format("rank {} of {} found a=b c", rank, workers)));
    }
  }
}

struct ErrorCase {
  const char* kind;
  const char* message;
  int exit_code;
};

TEST_P(EachKind, EndsWithTheCodeAndTheMessageOfTheRankThatFailed) {
  const ErrorCase cases[] = {
      {"config", "no such thing", 2},
      {"data", "row 7 is damaged", 3},
      {"checkpoint", "the disk is full", 4},
      {"startup", "no memory", 5},
      {"rank", "ranks disagree", 6},
      {"numeric", "the loss is NaN", 7},
      {"bug", "a bug", 6},
  };
  for (const ErrorCase& c : cases) {
    const auto end =
        run_kind({"body=raise", "workers=3", "rank=2", fmt::format("error={}", c.kind)});
    EXPECT_EQ(end.exit_code, c.exit_code) << end.output;
    EXPECT_THAT(end.last_line,
                EndsWith(fmt::format("error: rank 2 in step 7: {}; log of rank 2: logs/rank-2.log",
                                     c.message)));
    EXPECT_EQ(count(end.output, c.message), 1) << end.output;  // the others are no causes
    EXPECT_LT(end.seconds, soon);
  }
}

TEST_P(EachKind, LooksForTheCauseWhereTheFirstMessagePoints) {
  const auto end = run_kind({"body=accuse", "workers=3"});
  EXPECT_EQ(end.exit_code, 3) << end.output;
  EXPECT_THAT(end.last_line, HasSubstr("rank 1 in step 3: row 7 is damaged"));
}

TEST_P(EachKind, EndsARankThatIsStuck) {
  const auto end = run_kind({"body=stall", "workers=3"});
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_THAT(end.output, HasSubstr("rank 1 did not end in time"));
  EXPECT_THAT(end.last_line, HasSubstr("rank 1 did not arrive; log of rank 1: logs/rank-1.log"));
  EXPECT_LT(end.seconds, soon);
}

TEST_P(EachKind, NamesTheRankThatDidNotCome) {
  const auto end = run_kind({"body=absent", "workers=3", "rank=1"});
  EXPECT_EQ(end.exit_code, 5) << end.output;
  EXPECT_THAT(end.last_line, HasSubstr("before its first step: rank 1"));
  EXPECT_LT(end.seconds, soon);
}

TEST(Launch, SaysHowARankDied) {
  const std::pair<const char*, const char*> ways[] = {
      {"kill", "rank 1 was killed by signal 9 (SIGKILL) in step 57"},
      {"abort", "rank 1 was killed by signal 6 (SIGABRT) in step 57"},
      {"3", "rank 1 exited with code 3 before its work was done in step 57"},
      {"0", "rank 1 exited with code 0 before its work was done in step 57"},
  };
  for (const auto& [way, message] : ways) {
    const auto end =
        tests::run(launcher({"body=die", "workers=3", "rank=1", fmt::format("way={}", way)}));
    EXPECT_EQ(end.exit_code, 6) << end.output;
    EXPECT_THAT(end.last_line,
                EndsWith(fmt::format("error: {}; log of rank 1: logs/rank-1.log", message)));
    EXPECT_LT(end.seconds, soon);
  }
}

TEST(Launch, PassesNoOtherDescriptorToAWorkersOwnChildren) {
  const auto end = tests::run(launcher({"body=descriptors", "workers=3"}));
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST(Launch, MeetsAtAPortWhereOneIsAskedFor) {
  const auto end = tests::run(launcher({"body=finish", "workers=3", "note=x", "port=0"}));
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST(Launch, NamesAPortThatIsTaken) {
  const comm::Descriptor taken = comm::listen_tcp("127.0.0.1", 0);
  const std::string port = std::to_string(comm::local_port(taken));
  const auto end = tests::run(launcher({"body=finish", "workers=3", "note=x", "port=" + port}));
  EXPECT_EQ(end.exit_code, 5) << end.output;
  EXPECT_THAT(end.output, HasSubstr(port));
  EXPECT_THAT(end.output, HasSubstr("in use"));
  EXPECT_LT(end.seconds, soon);
}

TEST(Launch, RefusesWhatHasNoEffect) {
  const auto body = [](Worker&) {};
  LaunchOptions options;
  options.workers = 0;
  EXPECT_THROW(launch(options, body, Log::silent()), ConfigError);
  options.workers = 1;
  options.kind = LaunchKind::threads;
  options.listen = Endpoint{"127.0.0.1", 0};
  EXPECT_THROW(launch(options, body, Log::silent()), ConfigError);
}

TEST(Launch, ThreadsShareThisProcess) {
  LaunchOptions options;
  options.workers = 6;
  options.kind = LaunchKind::threads;
  std::atomic<int> ranks = 0;
  const int code = launch(
      options,
      [&](Worker& worker) {
        ranks += worker.rank();
        worker.report_step(worker.rank() + 10);
        EXPECT_EQ(worker.step_of(worker.rank()), worker.rank() + 10);
      },
      Log::silent());
  EXPECT_EQ(code, 0);
  EXPECT_EQ(ranks, 15);
}

TEST(Launch, AnAbortReachesThoseWhoSubscribeLater) {
  LaunchOptions options;
  options.workers = 2;
  options.kind = LaunchKind::threads;
  std::string heard;
  const int code = launch(
      options,
      [&](Worker& worker) {
        if (worker.rank() == 1) throw DataError("row 7 is damaged");
        std::atomic<bool> aborted = false;
        const auto wait = worker.on_abort([&](int, const std::string&) { aborted = true; });
        while (!aborted) std::this_thread::yield();
        const auto late = worker.on_abort([&](int rank, const std::string& cause) {
          heard = fmt::format("{}: {}", rank, cause);
        });
      },
      Log::silent());
  EXPECT_EQ(code, 3);
  EXPECT_EQ(heard, "1: rank 1 before its first step: row 7 is damaged");
}

}  // namespace
}  // namespace lockstep::train::testing

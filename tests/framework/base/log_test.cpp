#include "framework/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "framework/base/error.h"

namespace lockstep::base {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::ThrowsMessage;

struct Output {
  std::string out;
  std::string err;
};

template <class F>
Output capture(F&& f) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  f();
  return {testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

class LogFile : public testing::Test {
 protected:
  ~LogFile() override { std::filesystem::remove(path_); }

  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                ("lockstep_log_test_" + std::to_string(getpid()) + ".log");
};

constexpr const char* time_stamp = "[0-9][0-9]:[0-9][0-9]:[0-9][0-9] ";

TEST(Log, WarningsGoToStderrTheRestToStdout) {
  const Log log(LogLevel::debug);
  const Output output = capture([&] {
    log.debug("bucket {}", 1);
    log.info("step {}", 2);
    log.warning("slow {}", 3);
    log.error("lost {}", 4);
  });
  const std::string stamp = time_stamp;
  EXPECT_THAT(output.out, MatchesRegex(stamp + "bucket 1\n" + stamp + "step 2\n"));
  EXPECT_THAT(output.err, MatchesRegex(stamp + "warning: slow 3\n" + stamp + "error: lost 4\n"));
}

TEST(Log, PrefixStandsBeforeEachMessage) {
  const Log log(LogLevel::info, "rank 3: ");
  const Output output = capture([&] {
    log.info("ready");
    log.warning("late {{}}");
  });
  EXPECT_THAT(output.out, HasSubstr(" rank 3: ready\n"));
  EXPECT_THAT(output.err, HasSubstr(" warning: rank 3: late {}\n"));
}

TEST(Log, LowerLevelsAreLeftOut) {
  const Log log(LogLevel::warning);
  const Output output = capture([&] {
    log.debug("a");
    log.info("b");
    log.error("c");
  });
  EXPECT_EQ(output.out, "");
  EXPECT_THAT(output.err, HasSubstr("error: c"));
}

TEST(Log, SilentSaysNothing) {
  const Log log = Log::silent();
  const Output output = capture([&] {
    log.error("unheard");
    log.flush();
  });
  EXPECT_EQ(output.out + output.err, "");
}

TEST(Log, LevelsByName) {
  EXPECT_EQ(log_level_from_name("debug"), LogLevel::debug);
  EXPECT_EQ(log_level_from_name("warning"), LogLevel::warning);
  EXPECT_EQ(log_level_from_name("off"), LogLevel::off);
  EXPECT_THAT([] { log_level_from_name("loud"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("'loud'"), HasSubstr("debug, info"))));
}

TEST(Log, SeveralLogsLiveSideBySide) {
  const Log first(LogLevel::info, "rank 0: ");
  const Log second(LogLevel::error, "rank 1: ");
  const Output output = capture([&] {
    first.info("a");
    second.info("b");
    second.error("c");
  });
  EXPECT_THAT(output.out, MatchesRegex(std::string(time_stamp) + "rank 0: a\n"));
  EXPECT_THAT(output.err, HasSubstr("rank 1: c"));
}

TEST_F(LogFile, IsAppendedTo) {
  for (int run = 0; run < 2; ++run) {
    capture([&] { Log(LogLevel::info, "", path_.string()).info("run {}", run); });
  }
  const std::string stamp = time_stamp;
  EXPECT_THAT(text(), MatchesRegex(stamp + "run 0\n" + stamp + "run 1\n"));
}

TEST_F(LogFile, MayStandAlone) {
  const Output output = capture([&] {
    Log(LogLevel::info, "rank 1: ", path_.string(), false).error("quiet");
    Log(LogLevel::info, "rank 1: ", "", false).error("unheard");
  });
  EXPECT_EQ(output.out + output.err, "");
  EXPECT_THAT(text(), MatchesRegex(std::string(time_stamp) + "error: rank 1: quiet\n"));
}

TEST_F(LogFile, HoldsALineOnceAWarningCame) {
  const Log log(LogLevel::info, "", path_.string());
  capture([&] {
    log.info("before");
    log.warning("now");
  });
  EXPECT_THAT(text(), HasSubstr("before"));
  EXPECT_THAT(text(), HasSubstr("warning: now"));
}

TEST_F(LogFile, LinesOfThreadsStayWhole) {
  constexpr int threads = 4;
  constexpr int lines = 200;
  {
    const Log log(LogLevel::info, "", path_.string());
    capture([&] {
      std::vector<std::thread> writers;
      for (int thread = 0; thread < threads; ++thread) {
        writers.emplace_back([&log, thread] {
          for (int line = 0; line < lines; ++line) log.info("thread {} line {} end", thread, line);
        });
      }
      for (std::thread& writer : writers) writer.join();
    });
  }
  std::istringstream stream(text());
  const std::string whole = time_stamp + std::string("thread [0-9]+ line [0-9]+ end");
  int found = 0;
  for (std::string line; std::getline(stream, line); ++found) {
    EXPECT_THAT(line, MatchesRegex(whole));
  }
  EXPECT_EQ(found, threads * lines);
}

TEST(Log, FileThatCannotBeOpenedIsNamed) {
  EXPECT_THAT([] { Log(LogLevel::info, "", "/proc/no/such/folder/run.log"); },
              ThrowsMessage<StartupError>(HasSubstr("/proc/no/such/folder/run.log")));
}

}  // namespace
}  // namespace lockstep::base

#include "comm/mpi/seats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "framework/base/error.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

// Runs `body` in a process of its own, whose environment it may change; its exit code.
template <class Body>
pid_t start(Body&& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    _exit(body());
  } catch (const std::exception& error) {
    fprintf(stderr, "%s\n", error.what());
    _exit(99);
  }
}

int exit_code(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool has(const char* variable, const char* value) {
  const char* const found = std::getenv(variable);
  return found != nullptr && std::string(found) == value;
}

const std::string address = "lockstep-seats-test-" + std::to_string(getpid());

TEST(Seats, GiveTheTakerThePlaceOfTheLender) {
  const pid_t lender = start([] {
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    setenv("PMIX_RANK", "3", 1);
    setenv("OTHER", "lender", 1);
    return lend_seat(address, 3, milliseconds(20'000)) ? 0 : 1;
  });
  const pid_t taker = start([] {
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("PMI_LEFT_OVER", "1", 1);
    setenv("OTHER", "taker", 1);
    const Descriptor seat = take_seat(address, 3, milliseconds(20'000));
    if (!has("OMPI_COMM_WORLD_RANK", "3") || !has("PMIX_RANK", "3")) return 1;
    if (std::getenv("PMI_LEFT_OVER") != nullptr || !has("OTHER", "taker")) return 2;
    give_back_seat(seat);
    return 0;
  });
  EXPECT_EQ(exit_code(taker), 0);
  EXPECT_EQ(exit_code(lender), 0);
}

TEST(Seats, AreLookedForWithoutBeingTaken) {
  EXPECT_FALSE(seat_is_offered(address, 5));
  const pid_t lender = start([] { return lend_seat(address, 5, milliseconds(20'000)) ? 0 : 1; });
  while (!seat_is_offered(address, 5)) usleep(1000);
  EXPECT_TRUE(seat_is_offered(address, 5));
  const pid_t taker = start([] {
    give_back_seat(take_seat(address, 5, milliseconds(20'000)));
    return 0;
  });
  EXPECT_EQ(exit_code(taker), 0);
  EXPECT_EQ(exit_code(lender), 0);
}

TEST(Seats, AreKeptWhenTheTakerIsLost) {
  const pid_t lender = start([] { return lend_seat(address, 6, milliseconds(20'000)) ? 0 : 1; });
  const pid_t taker = start([] {
    const Descriptor seat = take_seat(address, 6, milliseconds(20'000));
    raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(exit_code(taker), 128 + SIGKILL);
  usleep(50'000);
  EXPECT_EQ(waitpid(lender, nullptr, WNOHANG), 0);
  kill(lender, SIGKILL);
  EXPECT_EQ(exit_code(lender), 128 + SIGKILL);
}

TEST(Seats, ThatNobodyTakesAreGivenUp) {
  EXPECT_EQ(exit_code(start([] { return lend_seat(address, 7, milliseconds(50)) ? 0 : 1; })), 1);
}

TEST(Seats, ThatAreNotThereAreNamed) {
  try {
    take_seat(address, 9, milliseconds(50));
    FAIL() << "took it";
  } catch (const StartupError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("rank 9"));
  }
}

TEST(MpiEnvironment, NeedsMoreThanALeftOverRank) {
  EXPECT_EQ(exit_code(start([] {
              setenv("OMPI_COMM_WORLD_RANK", "2", 1);
              return mpi_environment() ? 1 : 0;
            })),
            0);
}

TEST(MpiJob, OffersASeatForEachRankAndEnds) {
  if (!has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  std::optional<MpiJob> job;
  try {
    job.emplace(3, "", milliseconds(30'000));
  } catch (const StartupError& error) {
    GTEST_SKIP() << error.what();  // the program of the seats is not in this build
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(seat_is_offered(job->seats(), rank));
  const std::string seats = job->seats();
  job.reset();
  EXPECT_FALSE(seat_is_offered(seats, 0));
}

}  // namespace
}  // namespace lockstep::comm

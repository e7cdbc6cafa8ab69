// What is particular about ranks that are processes: finding each other, dying, leaving nothing
// behind.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "comm/memory/barrier.h"
#include "comm/memory/peer_socket.h"
#include "tests/comm/memory/group_ranks.h"
#include "tests/support/shared_memory.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::catch_rank_error;
using testing::Caught;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::soon;
using tests::ProcessRanks;
using tests::run_as_processes;
using tests::shared_memory_of;
using tests::still_there;

RankError late(int rank) {
  return RankError(rank, "late");
}

std::string startup_error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const StartupError& error) {
    return error.what();
  }
  return "";
}

TEST(ProcessGroupTest, NamesTheRanksThatAreMissing) {
  run_as_processes(5, [](int rank, Store& store) {
    if (rank == 1 || rank == 3) return;
    if (store.add("started", 1) == 3) store.set("all have started", "");
    store.get("all have started", 20s);
    const auto start = device::Clock::now();
    const std::string message =
        startup_error_of([&] { make_process_group(store, "group", rank, 5, 500ms); });
    EXPECT_THAT(message, HasSubstr("ranks 1, 3 of 5 did not come"));
    // The others end with rank 0, however late they came.
    if (rank == 0) {
      EXPECT_GE(device::Clock::now() - start, 500ms);
    }
    EXPECT_LT(device::Clock::now() - start, 5s);
  });
}

TEST(ProcessGroupTest, NamesRankZeroWhereItIsMissing) {
  run_as_processes(3, [](int rank, Store& store) {
    if (rank == 0) return;
    const std::string message =
        startup_error_of([&] { make_process_group(store, "group", rank, 3, 200ms); });
    EXPECT_THAT(message, HasSubstr("rank 0 of 3 did not come"));
  });
}

TEST(ProcessGroupTest, RanksMayComeInAnyOrder) {
  run_as_processes(4, [](int rank, Store& store) {
    std::this_thread::sleep_for((4 - rank) * 30ms);
    EXPECT_EQ(make_process_group(store, "group", rank, 4, 20s)->rank(), rank);
  });
}

TEST(ProcessGroupTest, ManyGroupsShareAStore) {
  run_as_processes(4, [](int rank, Store& store) {
    std::vector<std::unique_ptr<Group>> groups;
    for (const char* prefix : {"a", "b", "a/b"})
      groups.push_back(make_process_group(store, prefix, rank, 4, 20s));
    // Another order on every rank would be a deadlock; another order than they were made in is
    // none.
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
      const auto memory = (*group)->allocate(sizeof(int), soon());
      EXPECT_EQ(*reinterpret_cast<int*>(memory->local().data()), 0);
      *reinterpret_cast<int*>(memory->local().data()) = 1;
    }
    groups[0]->abort(0, "only this one");
    EXPECT_FALSE(groups[1]->aborted());
  });
}

// Connects to whatever rank 0 listens on and says nothing, something wrong, or closes.
TEST(ProcessGroupTest, StrangersDisturbNobody) {
  run_as_processes(3, [](int rank, Store& store) {
    if (rank == 2) {
      const std::string address = store.get("group/address", 20s);
      sockaddr_un name{};
      name.sun_family = AF_UNIX;
      const auto length =
          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                 address.copy(name.sun_path + 1, sizeof name.sun_path - 1));
      std::vector<Descriptor> strangers;
      for (int i = 0; i < 300; ++i) {
        strangers.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        const int fd = strangers.back().get();
        ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&name), length), 0);
        if (i % 3 == 1) send(fd, "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL);
        if (i % 3 == 2) strangers.pop_back();
      }
      EXPECT_EQ(make_process_group(store, "group", rank, 3, 20s)->rank(), rank);
      return;
    }
    EXPECT_EQ(make_process_group(store, "group", rank, 3, 20s)->rank(), rank);
  });
}

TEST(ProcessGroupTest, TheLimitOnFileSizesIsAnErrorBeforeAnyAccess) {
  run_as_processes(3, [](int rank, Store& store) {
    const auto group = make_process_group(store, "group", rank, 3, 20s);
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 1 << 20;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const std::string message = startup_error_of([&] { group->allocate(1 << 20, soon()); });
    EXPECT_THAT(message, AllOf(HasSubstr("needs 3145728 bytes"), HasSubstr("available 1048576"),
                               HasSubstr("RLIMIT_FSIZE")));
    EXPECT_EQ(group->allocate(1 << 16, soon())->bytes(), std::size_t{1} << 16);
  });
}

// A shortage of one rank alone, found only when it takes its part.
TEST(ProcessGroupTest, AShortageOfOneRankIsAnErrorOfAll) {
  run_as_processes(3, [](int rank, Store& store) {
    const auto group = make_process_group(store, "group", rank, 3, 20s);
    if (rank == 2) {
      std::ifstream statistics("/proc/self/statm");
      rlim_t pages = 0;
      statistics >> pages;
      const rlimit limit{(pages << 12) + (8 << 20), RLIM_INFINITY};
      ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    }
    const std::string message = startup_error_of([&] { group->allocate(32 << 20, soon()); });
    EXPECT_THAT(message, AllOf(HasSubstr("needs"), HasSubstr("available")));
    EXPECT_EQ(group->allocate(1 << 16, soon())->bytes(), std::size_t{1} << 16);
  });
}

// However a rank dies, and in the middle of whatever, the others go on to the abort and see its
// cause.
TEST(ProcessGroupTest, AKilledRankIsNoHang) {
  constexpr int size = 4;
  std::mt19937 random(11);
  for (int repetition = 0; repetition < 8; ++repetition) {
    const int victim = static_cast<int>(random() % size);
    ProcessRanks ranks(size, [](int rank, Store& store) {
      const auto group = make_process_group(store, "group", rank, size, 20s);
      // What the launcher of a run does for its workers.
      std::thread watch([&] {
        const int lost = std::stoi(store.get("lost", 60s));
        group->abort(lost, "rank " + std::to_string(lost) + " was killed");
      });
      const Caught caught = catch_rank_error([&] {
        store.add("running", 1);
        while (true) {
          const auto memory = group->allocate(Barrier::bytes(size), soon());
          Barrier barrier(*group, memory->part(0));
          for (int i = 0; i < 20; ++i) barrier.arrive_and_wait(soon(), late);
          group->split(0, 0, soon());
        }
      });
      watch.join();
      EXPECT_THAT(caught.message, AllOf(HasSubstr("rank"), Not(HasSubstr("late"))));
    });
    while (ranks.store().add("running", 0) < size) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    ranks.kill(victim, SIGKILL);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3'000));
    ranks.store().set("lost", std::to_string(victim));
    const auto start = device::Clock::now();
    const std::vector<int> statuses = ranks.wait(10s);
    EXPECT_LT(device::Clock::now() - start, 5s);
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(statuses[static_cast<std::size_t>(rank)], rank == victim ? SIGKILL : 0)
          << "rank " << rank << ", victim " << victim;
  }
}

// The lines about an abstract socket of this name, the one that listens or one that it accepted.
std::vector<std::string> lines_about(const std::string& socket_name) {
  std::vector<std::string> lines;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);)
    if (line.ends_with(" @" + socket_name)) lines.push_back(line);
  return lines;
}

std::vector<std::string> open_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone) files.push_back(target);
  }
  return files;
}

TEST(ProcessGroupTest, NothingWithANameIsLeftBehind) {
  ProcessRanks ranks(3, [](int rank, Store& store) {
    const auto group = make_process_group(store, "group", rank, 3, 20s);
    const auto memory = group->allocate(1000, soon());
    for (const std::string& file : open_files())
      EXPECT_THAT(file, Not(HasSubstr("memfd"))) << "the mapping needs no descriptor";
    const auto shared = shared_memory_of(getpid());
    EXPECT_THAT(shared, AllOf(Contains(HasSubstr("memfd")), Not(Contains(HasSubstr("/dev/shm")))));
    store.set(fmt::format("memory {}", rank), fmt::format("{}", fmt::join(shared, "\n")));
    store.add("ready", 1);
    store.get("never", 60s);
  });
  while (ranks.store().add("ready", 0) < 3) std::this_thread::sleep_for(1ms);
  const std::string address = ranks.store().get("group/address", 1s);
  const std::string listening = " 00010000 ";  // the flags of a socket that accepts connections
  for (const std::string& line : lines_about(address)) EXPECT_THAT(line, Not(HasSubstr(listening)));
  std::set<std::string> memory;
  for (int rank = 0; rank < 3; ++rank) {
    std::istringstream lines(ranks.store().get(fmt::format("memory {}", rank), 1s));
    for (std::string line; std::getline(lines, line);) memory.insert(line);
    ranks.kill(rank, SIGKILL);
  }
  for (const int status : ranks.wait()) EXPECT_EQ(status, SIGKILL);
  EXPECT_THAT(lines_about(address), IsEmpty());
  EXPECT_THAT(still_there(memory), IsEmpty());
}

}  // namespace
}  // namespace lockstep::comm

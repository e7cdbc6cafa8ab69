// What a group promises, with ranks that are threads and with ranks that are processes.
#include "comm/memory/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "comm/memory/barrier.h"
#include "comm/memory/mapped_memory.h"
#include "tests/comm/memory/group_ranks.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::catch_rank_error;
using testing::Caught;
using ::testing::HasSubstr;
using testing::RankKind;
using testing::run_ranks;
using testing::soon;

RankError late(int rank) {
  return RankError(rank, "rank " + std::to_string(rank) + " is late");
}

// A signal for each rank, in memory of the group.
class Signals {
 public:
  explicit Signals(Group& group) : memory_(group.allocate(sizeof(Signal), soon())) {}
  Signal& operator[](int rank) const {
    return *reinterpret_cast<Signal*>(memory_->part(rank).data());
  }

 private:
  std::shared_ptr<SymmetricBuffer> memory_;
};

void meet(Group& group) {
  const auto memory = group.allocate(Barrier::bytes(group.size()), soon());
  Barrier(group, memory->part(0)).arrive_and_wait(soon(), late);
}

class GroupTest : public ::testing::TestWithParam<std::tuple<RankKind, int>> {
 protected:
  RankKind kind() const { return std::get<0>(GetParam()); }
  int size() const { return std::get<1>(GetParam()); }
};

std::string name_of_case(const ::testing::TestParamInfo<GroupTest::ParamType>& test) {
  return name_of(std::get<0>(test.param)) + std::to_string(std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(Ranks, GroupTest,
                         ::testing::Combine(::testing::Values(RankKind::threads,
                                                              RankKind::processes),
                                            ::testing::Values(1, 2, 3, 8, 9)),
                         name_of_case);

// What takes another rank to go wrong.
class SeveralRanksTest : public GroupTest {};

INSTANTIATE_TEST_SUITE_P(Ranks, SeveralRanksTest,
                         ::testing::Combine(::testing::Values(RankKind::threads,
                                                              RankKind::processes),
                                            ::testing::Values(2, 3, 8, 9)),
                         name_of_case);

TEST_P(GroupTest, PartsAreZeroedAlignedAndSeenByAll) {
  run_ranks(kind(), size(), [&](Group& group) {
    ASSERT_EQ(group.size(), size());
    const Signals turn(group);
    for (const std::size_t bytes : {std::size_t{1}, page_size() - 1, page_size(), page_size() + 1,
                                    (std::size_t{2} << 20) + 17}) {
      const auto memory = group.allocate(bytes, soon());
      ASSERT_EQ(memory->size(), group.size());
      ASSERT_EQ(memory->bytes(), bytes);
      ASSERT_EQ(memory->local().data(), memory->part(group.rank()).data());
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory->local().data()) % page_size(), 0u);
      for (const std::byte value : memory->local()) ASSERT_EQ(value, std::byte{});
      std::memset(memory->local().data(), group.rank() + 1, bytes);
      meet(group);
      for (int rank = 0; rank < group.size(); ++rank)
        for (const std::byte value : memory->part(rank))
          ASSERT_EQ(value, static_cast<std::byte>(rank + 1));
      meet(group);
    }
    const auto nothing = group.allocate(0, soon());
    EXPECT_EQ(nothing->bytes(), 0u);
    EXPECT_EQ(nothing->size(), group.size());
  });
}

TEST_P(GroupTest, MemoryOutlivesItsGroup) {
  run_ranks(kind(), size(), [&](Group& group) {
    std::unique_ptr<Group> part = group.split(0, group.rank(), soon());
    const auto memory = part->allocate(100, soon());
    part.reset();
    memory->local()[99] = static_cast<std::byte>(group.rank());
    meet(group);
    for (int rank = 0; rank < group.size(); ++rank)
      EXPECT_EQ(memory->part(rank)[99], static_cast<std::byte>(rank));
    meet(group);
  });
}

TEST_P(SeveralRanksTest, DifferentSizesAreAnErrorEverywhere) {
  run_ranks(kind(), size(), [&](Group& group) {
    const bool odd_one = group.rank() == group.size() - 1;
    const Caught caught = catch_rank_error([&] { group.allocate(odd_one ? 998 : 1000, soon()); });
    EXPECT_EQ(caught.rank, group.size() - 1);
    EXPECT_THAT(caught.message, AllOf(HasSubstr("998"), HasSubstr("1000")));
    EXPECT_EQ(group.allocate(10, soon())->bytes(), 10u) << "the group is of use afterwards";
  });
}

TEST_P(GroupTest, TooMuchMemoryIsAnErrorEverywhere) {
  run_ranks(kind(), size(), [&](Group& group) {
    for (const std::size_t bytes : {std::size_t{1} << 45, std::size_t(-1)}) try {
        group.allocate(bytes, soon());
        ADD_FAILURE() << "no host has that much";
      } catch (const StartupError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("needs"), HasSubstr("available")));
      }
    EXPECT_EQ(group.allocate(10, soon())->bytes(), 10u) << "the group is of use afterwards";
  });
}

TEST_P(GroupTest, AValueGoesRoundAndRound) {
  run_ranks(kind(), size(), [&](Group& group) {
    const Signals signals(group);
    Signal& mine = signals[group.rank()];
    Signal& next = signals[(group.rank() + 1) % group.size()];
    const std::uint32_t rounds = 300;
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      if (group.rank() == 0) post(next, round);
      group.wait(
          mine, [&](std::uint32_t value) { return value >= round; }, soon(),
          [&] { return late(group.rank() - 1); });
      if (group.rank() != 0) post(next, round);
    }
    EXPECT_EQ(mine.value.load(), rounds);
    meet(group);
  });
}

// A writer that runs ahead: ranks fall asleep between two posts, and none may be forgotten.
TEST_P(GroupTest, NoPostIsLost) {
  run_ranks(kind(), size(), [&](Group& group) {
    const Signals signals(group);
    const std::uint32_t posts = 2000;
    std::mt19937 random(static_cast<unsigned>(group.rank()));
    group.set_wait_policy({.spins = group.rank() % 3, .yields = group.rank() % 2 * 5});
    if (group.rank() == 0) {
      for (std::uint32_t value = 1; value <= posts; ++value) {
        post(signals[0], value);
        if (random() % 16 == 0) std::this_thread::yield();
      }
    }
    const auto start = device::Clock::now();
    for (std::uint32_t seen = 0; seen < posts;) {
      const auto wanted = static_cast<std::uint32_t>(seen + 1 + random() % 3);
      group.wait(
          signals[0],
          [&](std::uint32_t value) { return (seen = value) >= std::min(wanted, posts); }, soon(),
          [] { return late(0); });
    }
    EXPECT_LT(device::Clock::now() - start, 10s);
    meet(group);
  });
}

TEST_P(GroupTest, ABarrierHoldsEveryoneBack) {
  run_ranks(kind(), size(), [&](Group& group) {
    const auto memory = group.allocate(Barrier::bytes(group.size()), soon());
    const auto counters = group.allocate(sizeof(std::atomic<int>), soon());
    const auto counter = [&](int rank) -> std::atomic<int>& {
      return *reinterpret_cast<std::atomic<int>*>(counters->part(rank).data());
    };
    Barrier barrier(group, memory->part(0));
    std::mt19937 random(static_cast<unsigned>(group.rank()));
    for (int round = 1; round <= 500; ++round) {
      if (random() % 50 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
      counter(group.rank()).store(round, std::memory_order_relaxed);
      barrier.arrive_and_wait(soon(), late);
      for (int rank = 0; rank < group.size(); ++rank) {
        const int at = counter(rank).load(std::memory_order_relaxed);
        ASSERT_TRUE(at == round || at == round + 1) << "rank " << rank << " at " << at;
      }
    }
    meet(group);
  });
}

TEST_P(SeveralRanksTest, TheDeadlineNamesWhoIsMissing) {
  run_ranks(kind(), size(), [&](Group& group) {
    const auto memory = group.allocate(Barrier::bytes(group.size()), soon());
    const Signals done(group);
    const int missing = group.size() / 2;
    if (group.rank() != missing) {
      Barrier barrier(group, memory->part(0));
      const auto start = device::Clock::now();
      const Caught caught = catch_rank_error([&] { barrier.arrive_and_wait(start + 300ms, late); });
      EXPECT_EQ(caught.rank, missing);
      EXPECT_EQ(caught.message, late(missing).what());
      EXPECT_GE(device::Clock::now() - start, 300ms);
      EXPECT_LT(device::Clock::now() - start, 5s);
      post(done[group.rank()], 1);
    } else {
      for (int rank = 0; rank < group.size(); ++rank)
        if (rank != missing)
          group.wait(
              done[rank], [](std::uint32_t value) { return value == 1; }, soon(),
              [&] { return late(rank); });
    }
    EXPECT_FALSE(group.aborted());
    meet(group);
  });
}

TEST_P(SeveralRanksTest, ALateAllocationNamesWhoIsMissing) {
  run_ranks(kind(), size(), [&](Group& group) {
    const Signals done(group);
    if (group.rank() != 0) {  // rank 0 stays away; the lowest one that is missing is named
      const Caught caught =
          catch_rank_error([&] { group.allocate(100, device::Clock::now() + 30ms); });
      EXPECT_EQ(caught.rank, 0);
      EXPECT_THAT(caught.message, HasSubstr("rank 0 did not come"));
    }
    post(done[group.rank()], 1);
    for (int rank = 0; rank < group.size(); ++rank)
      group.wait(
          done[rank], [](std::uint32_t value) { return value == 1; }, soon(),
          [&] { return late(rank); });
  });
}

TEST_P(GroupTest, AnAbortEndsEveryWait) {
  run_ranks(kind(), size(), [&](Group& group) {
    const Signals signals(group);
    const std::string cause = "rank 5 hit\na bad row";
    std::thread helper;
    if (group.rank() == 0)
      helper = std::thread([&] {
        std::this_thread::sleep_for(30ms);
        group.abort(5, cause);
        group.abort(6, "a later one");
      });
    const auto wait_for_ever = [&] {
      group.wait(
          signals[group.rank()], [](std::uint32_t value) { return value == 1; },
          device::Deadline::max(), [] { return late(7); });
    };
    const Caught caught = catch_rank_error(wait_for_ever);
    EXPECT_EQ(caught.rank, 5);
    EXPECT_EQ(caught.message, cause);
    EXPECT_TRUE(group.aborted());
    EXPECT_EQ(catch_rank_error(wait_for_ever).message, cause) << "and later ones";
    EXPECT_EQ(catch_rank_error([&] { group.throw_if_aborted(); }).message, cause);
    EXPECT_EQ(catch_rank_error([&] { group.allocate(10, soon()); }).message, cause);
    if (helper.joinable()) helper.join();
  });
}

TEST_P(GroupTest, AllSeeTheSameFirstCause) {
  run_ranks(kind(), size(), [&](Group& group) {
    const auto causes = group.allocate(sizeof(int), soon());
    const Signals done(group);
    meet(group);
    group.abort(group.rank(), "cause of rank " + std::to_string(group.rank()));
    const Caught caught = catch_rank_error([&] { group.throw_if_aborted(); });
    EXPECT_EQ(caught.message, "cause of rank " + std::to_string(caught.rank));
    *reinterpret_cast<int*>(causes->local().data()) = caught.rank;
    // A condition that holds ends a wait without an error, so ranks can still meet like this.
    post(done[group.rank()], 1);
    for (int rank = 0; rank < group.size(); ++rank) {
      while (done[rank].value.load(std::memory_order_acquire) != 1) std::this_thread::yield();
      EXPECT_EQ(*reinterpret_cast<int*>(causes->part(rank).data()), caught.rank);
    }
  });
}

TEST_P(GroupTest, ALongCauseIsCut) {
  run_ranks(kind(), size(), [&](Group& group) {
    group.abort(-1, std::string(10'000, 'x'));
    const Caught caught = catch_rank_error([&] { group.throw_if_aborted(); });
    EXPECT_EQ(caught.rank, -1);
    EXPECT_GE(caught.message.size(), 2000u);
    EXPECT_EQ(caught.message.find_first_not_of('x'), std::string::npos);
  });
}

TEST_P(GroupTest, SplitsByColorAndKey) {
  run_ranks(kind(), size(), [&](Group& group) {
    for (int round = 0; round < 3; ++round) {
      // Odd and even ranks, in opposite order; rank 0 stays out of the second round.
      const bool out = round == 1 && group.rank() == 0;
      const auto part = group.split(out ? -1 : group.rank() % 2, -group.rank(), soon());
      ASSERT_EQ(part == nullptr, out);
      if (out) continue;
      std::vector<int> members;
      for (int rank = group.size() - 1; rank >= (round == 1 ? 1 : 0); --rank)
        if (rank % 2 == group.rank() % 2) members.push_back(rank);
      ASSERT_EQ(part->size(), static_cast<int>(members.size()));
      ASSERT_EQ(members[static_cast<std::size_t>(part->rank())], group.rank());
      const auto memory = part->allocate(sizeof(int), soon());
      *reinterpret_cast<int*>(memory->local().data()) = group.rank();
      meet(*part);
      for (int rank = 0; rank < part->size(); ++rank)
        EXPECT_EQ(*reinterpret_cast<int*>(memory->part(rank).data()),
                  members[static_cast<std::size_t>(rank)]);
      meet(*part);
    }
    meet(group);
  });
}

TEST_P(GroupTest, AnAbortReachesSplitsButNotBack) {
  run_ranks(kind(), size(), [&](Group& group) {
    const auto part = group.split(0, 0, soon());
    const auto sibling = group.split(0, 0, soon());
    if (group.rank() == 0) part->abort(0, "of the part");
    while (!part->aborted()) std::this_thread::yield();
    EXPECT_EQ(catch_rank_error([&] { part->throw_if_aborted(); }).message, "of the part");
    EXPECT_FALSE(group.aborted());
    meet(group);
    group.abort(0, "of all");
    EXPECT_EQ(catch_rank_error([&] { meet(*sibling); }).message, "of all");
    EXPECT_EQ(catch_rank_error([&] { part->throw_if_aborted(); }).message, "of the part");
  });
}

}  // namespace
}  // namespace lockstep::comm

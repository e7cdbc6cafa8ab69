// A rank that comes when the others have given up must leave their memory alone: they may have
// freed it.
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <thread>
#include <vector>

#include "comm/ring/ring.h"
#include "framework/device/cpu/cpu_context.h"
#include "tests/comm/ring/one_core.h"

namespace lockstep::comm::ring {

namespace {

constexpr int ranks = 3;

// All but the last rank come, wait in vain and give up; then the last one comes.
void come_late(std::size_t count, bool crowded) {
  auto groups = make_thread_groups(ranks);
  std::latch all_made(ranks), given_up(ranks - 1), over(1);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(count, 1.0f));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      // More ranks than cores, whatever the machine.
      if (crowded) testing::stay_on_core(0);
      const auto communicator =
          make_ring_communicator(std::move(groups[static_cast<std::size_t>(r)]),
                                 {.timeout = std::chrono::seconds(1), .algorithm = "two_shot"});
      const auto stream = device::make_inline_stream();
      all_made.arrive_and_wait();
      const bool is_last = r + 1 == ranks;
      auto& mine = data[static_cast<std::size_t>(r)];
      if (is_last) given_up.wait();
      const Work work = communicator->all_reduce(range_of(std::span(mine)), ReduceOp::sum, *stream);
      EXPECT_THROW(work.wait(), RankError);
      if (is_last) {
        over.count_down();
      } else {
        std::fill(mine.begin(), mine.end(), 7.0f);  // it is this rank's own again
        given_up.count_down();
        over.wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r + 1 < ranks; ++r) {
    const auto& mine = data[static_cast<std::size_t>(r)];
    EXPECT_EQ(std::count(mine.begin(), mine.end(), 7.0f), static_cast<std::ptrdiff_t>(count));
  }
}

// The last one would do the work of all.
TEST(LateRank, LeavesMemoryAloneWhereOneRankWorksForAll) {
  come_late(20'000, true);
}

TEST(LateRank, LeavesMemoryAloneWhereRanksShareTheWork) {
  come_late(1'000'000, true);
  come_late(1'000'000, false);
}

}  // namespace

}  // namespace lockstep::comm::ring

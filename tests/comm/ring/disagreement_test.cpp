// Ranks whose tables choose different algorithms say so before any data moves.
#include <gmock/gmock.h>

#include <thread>

#include "comm/ring/ring.h"
#include "framework/device/cpu/cpu_context.h"

namespace lockstep::comm::ring {

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Disagreement, AboutTheAlgorithmIsAnErrorOnEveryRank) {
  auto groups = make_thread_groups(2);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      const auto communicator = make_ring_communicator(
          std::move(groups[r]),
          {.timeout = std::chrono::seconds(20), .tuning = r == 0 ? "ring" : "two_shot"});
      std::vector<float> data(1000, 1.0f);
      try {
        communicator
            ->all_reduce(range_of(std::span(data)), ReduceOp::sum, *device::make_inline_stream())
            .wait();
        ADD_FAILURE() << "rank " << r << " did not fail";
      } catch (const RankError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("disagree"), HasSubstr("by algorithm"),
                                        HasSubstr("rank 0"), HasSubstr("rank 1")));
      }
      EXPECT_EQ(data, std::vector<float>(1000, 1.0f));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

}  // namespace lockstep::comm::ring

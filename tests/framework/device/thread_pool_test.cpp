#include "framework/device/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "framework/base/error.h"

namespace lockstep::device {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ThreadPoolOfSize : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolOfSize, testing::Values(1, 2, 3, 8));

TEST_P(ThreadPoolOfSize, CallsEachIndexOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.size(), GetParam());
  for (const std::int64_t count : {0, 1, 2, 3, 7, 8, 9, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
    pool.for_each(count, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
    for (const auto& call : calls) ASSERT_EQ(call, 1) << count;
  }
}

// Loops follow each other as in a training step, without a pause and with one long enough to fall
// asleep in. What one loop wrote without atomics the next must see, whichever thread does the index
// now.
TEST_P(ThreadPoolOfSize, LoopsInARow) {
  ThreadPool pool(GetParam());
  std::vector<int> values(37);
  constexpr int loops = 500;
  for (int loop = 0; loop < loops; ++loop) {
    if (loop % 100 == 99) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.for_each(static_cast<std::int64_t>(values.size()),
                  [&](std::int64_t i) { ++values[static_cast<std::size_t>(i)]; });
  }
  for (const int value : values) EXPECT_EQ(value, loops);
}

TEST_P(ThreadPoolOfSize, RethrowsAndWorksOn) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 20; ++round) {
    EXPECT_THAT(([&] {
                  pool.for_each(100, [](std::int64_t i) {
                    if (i % 10 == 5) throw std::runtime_error("index is bad");
                  });
                }),
                ThrowsMessage<std::runtime_error>("index is bad"));
    std::atomic<int> calls{0};
    pool.for_each(50, [&](std::int64_t) { ++calls; });
    EXPECT_EQ(calls, 50);
  }
}

TEST(ThreadPool, StopsEarlyAfterAnException) {
  ThreadPool pool(4);
  std::atomic<int> calls{0};
  EXPECT_THROW(pool.for_each(1'000'000,
                             [&](std::int64_t) {
                               ++calls;
                               throw std::runtime_error("at once");
                             }),
               std::runtime_error);
  EXPECT_LE(calls, 4);  // each thread notices at its next index
}

TEST(ThreadPool, OneThreadMeansTheCaller) {
  ThreadPool pool(1);
  std::vector<std::int64_t> order;
  pool.for_each(5, [&](std::int64_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

// With as many indices as threads, each of which waits for all the others, the loop can only end if
// every thread of the pool takes part.
TEST(ThreadPool, AllThreadsTakePart) {
  constexpr int threads = 4;
  ThreadPool pool(threads);
  std::atomic<int> arrived{0};
  std::mutex mutex;
  std::set<std::thread::id> ids;
  pool.for_each(threads, [&](std::int64_t) {
    ++arrived;
    while (arrived < threads) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), std::size_t{threads});
  EXPECT_TRUE(ids.contains(std::this_thread::get_id()));
}

TEST(ThreadPool, StartsAndStopsAtOnce) {
  for (int i = 0; i < 100; ++i) ThreadPool pool(3);
}

TEST(ThreadPool, RefusesNestedLoops) {
  ThreadPool pool(2);
  EXPECT_THAT(
      ([&] { pool.for_each(2, [&](std::int64_t) { pool.for_each(2, [](std::int64_t) {}); }); }),
      ThrowsMessage<UsageError>(HasSubstr("running already")));
}

TEST(ThreadPool, RefusesNoThreads) {
  EXPECT_THAT([] { ThreadPool pool(0); }, ThrowsMessage<UsageError>(HasSubstr("0 threads")));
  EXPECT_THROW(ThreadPool(-1), UsageError);
}

}  // namespace
}  // namespace lockstep::device

#include "train/timeline/interval.h"

#include <gtest/gtest.h>

#include <random>

namespace lockstep::train {
namespace {

using Seconds = std::chrono::duration<double>;

Interval between(int begin, int end) {
  const device::Clock::time_point zero;
  return {zero + std::chrono::seconds(begin), zero + std::chrono::seconds(end)};
}

TEST(Interval, UniteJoinsWhatTouchesOrOverlaps) {
  std::vector<Interval> intervals{between(5, 7), between(0, 2),   between(2, 3),
                                  between(6, 6), between(10, 11), between(5, 6)};
  unite(intervals);
  ASSERT_EQ(intervals.size(), 3u);
  EXPECT_EQ(total(intervals), 3 + 2 + 1);
  std::vector<Interval> none;
  unite(none);
  EXPECT_EQ(total(none), 0);
}

// Against a count of seconds, one by one.
TEST(Interval, IntersectionCountsEverySecondOnce) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    constexpr int length = 60;
    std::vector<Interval> sets[2];
    std::vector<bool> covered[2];
    for (int s = 0; s < 2; ++s) {
      covered[s].assign(length, false);
      for (int i = 0; i < round % 9; ++i) {
        const int begin = static_cast<int>(random() % length);
        const int end = begin + static_cast<int>(random() % static_cast<unsigned>(length - begin));
        sets[s].push_back(between(begin, end));
        std::fill(covered[s].begin() + begin, covered[s].begin() + end, true);
      }
      unite(sets[s]);
    }
    int both = 0, first = 0;
    for (int i = 0; i < length; ++i) {
      first += covered[0][static_cast<std::size_t>(i)];
      both += covered[0][static_cast<std::size_t>(i)] && covered[1][static_cast<std::size_t>(i)];
    }
    EXPECT_EQ(total(sets[0]), first);
    EXPECT_EQ(intersection(sets[0], sets[1]), both);
    EXPECT_EQ(intersection(sets[1], sets[0]), both);
  }
}

}  // namespace
}  // namespace lockstep::train

#include "data/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

namespace lockstep::data {
namespace {

std::vector<std::uint64_t> all_of(const Permutation& permutation) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < permutation.count(); ++i) values.push_back(permutation(i));
  return values;
}

TEST(Permutation, IsOne) {
  for (std::uint64_t count = 0; count < 300; ++count) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      auto values = all_of(Permutation(count, seed, "test", count));
      std::ranges::sort(values);
      for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(values[i], i) << count;
    }
  }
  for (const std::uint64_t count : {4095u, 4096u, 4097u, 60000u}) {
    auto values = all_of(Permutation(count, 5, "test", 0));
    std::ranges::sort(values);
    for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(values[i], i) << count;
  }
}

TEST(Permutation, ServesLargeCounts) {
  const std::uint64_t count = (std::uint64_t{1} << 40) + 12345;
  const Permutation permutation(count, 1, "test", 0);
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    values.push_back(permutation(i * 1000003));
    EXPECT_LT(values.back(), count);
  }
  std::ranges::sort(values);
  EXPECT_EQ(std::ranges::adjacent_find(values), values.end());
}

TEST(Permutation, DependsOnEveryArgument) {
  const auto base = all_of(Permutation(1000, 1, "shuffle", 0));
  EXPECT_EQ(base, all_of(Permutation(1000, 1, "shuffle", 0)));
  EXPECT_NE(base, all_of(Permutation(1000, 2, "shuffle", 0)));
  EXPECT_NE(base, all_of(Permutation(1000, 1, "split", 0)));
  EXPECT_NE(base, all_of(Permutation(1000, 1, "shuffle", 1)));
}

// Chi-squared of observed counts against equal ones, as a number of standard deviations from its
// mean.
double deviation(const std::vector<int>& counts) {
  double total = 0;
  for (const int count : counts) total += count;
  const double expected = total / static_cast<double>(counts.size());
  double statistic = 0;
  for (const int count : counts) statistic += (count - expected) * (count - expected) / expected;
  const auto freedom = static_cast<double>(counts.size()) - 1;
  return (statistic - freedom) / std::sqrt(2 * freedom);
}

// The seeds are fixed, so these cannot fail by chance.
TEST(Permutation, PutsEveryElementEverywhereEquallyOften) {
  for (const std::uint64_t count : {2u, 3u, 5u, 8u, 10u, 17u, 100u}) {
    std::vector<int> counts(count * count);
    for (std::uint64_t epoch = 0; epoch < 200 * count; ++epoch) {
      const Permutation permutation(count, 3, "test", epoch);
      for (std::uint64_t i = 0; i < count; ++i) ++counts[i * count + permutation(i)];
    }
    EXPECT_LT(std::abs(deviation(counts)), 4) << count;
  }
}

TEST(Permutation, GivesEveryOrderOfFewElements) {
  std::map<std::vector<std::uint64_t>, int> orders;
  for (std::uint64_t epoch = 0; epoch < 12000; ++epoch) {
    ++orders[all_of(Permutation(5, 9, "test", epoch))];
  }
  ASSERT_EQ(orders.size(), 120);
  std::vector<int> counts;
  for (const auto& [order, count] : orders) counts.push_back(count);
  EXPECT_LT(std::abs(deviation(counts)), 4);
}

TEST(Permutation, LeavesNeighboursUnrelated) {
  constexpr std::uint64_t count = 60000;
  constexpr std::size_t bins = 60;
  std::vector<int> counts(bins);
  const Permutation permutation(count, 11, "test", 0);
  for (std::uint64_t i = 0; i + 1 < count; ++i) {
    const std::uint64_t step = (permutation(i + 1) + count - permutation(i)) % count;
    ++counts[step * bins / count];
  }
  EXPECT_LT(std::abs(deviation(counts)), 4);
}

}  // namespace
}  // namespace lockstep::data

#include "framework/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "framework/base/error.h"

namespace lockstep::base {
namespace {

// From kat_vectors of the Random123 distribution (philox4x32, 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, AddressesWordsOfBlocks) {
  const RandomStream stream(1, "test");
  for (std::uint64_t index : {0u, 1u, 2u, 3u, 4u, 1001u}) {
    EXPECT_EQ(stream.bits(index), stream.block(0, index / 4)[index % 4]);
  }
  EXPECT_EQ(stream.block(5, 7), philox4x32({7, 0, 5, 0}, stream.key()));
  EXPECT_EQ(stream.block(0x500000006, 0x700000008), philox4x32({8, 7, 6, 5}, stream.key()));
}

// Runs are promised to repeat across versions and machines: these values must not change.
TEST(RandomStream, ValuesAreFixed) {
  const RandomStream stream(42, "init:fc1.weight", 3);
  EXPECT_EQ(stream.key(), (PhiloxKey{1539051061, 2589081933}));
  EXPECT_EQ(stream.bits(0), 2449473846u);
  EXPECT_EQ(stream.below(60'000, 9), 31392u);
  EXPECT_NEAR(stream.normal(5), 1.6095930621432923, 1e-12);
}

TEST(RandomStream, SeedPurposeAndStepSeparate) {
  std::set<PhiloxKey> keys;
  int streams = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (const char* purpose : {"", "shuffle", "init:a", "init:b", "dropout:a"}) {
      for (std::uint64_t step = 0; step < 20; ++step, ++streams) {
        keys.insert(RandomStream(seed, purpose, step).key());
      }
    }
  }
  EXPECT_EQ(keys.size(), static_cast<std::size_t>(streams));
}

TEST(RandomStream, UniformFillsItsRange) {
  EXPECT_EQ(uniform_from_bits(0), 0.0f);
  EXPECT_EQ(uniform_from_bits(0xFFFFFFFFu), 1.0f - 0x1p-24f);

  const RandomStream stream(1, "uniform");
  constexpr int draws = 100'000;
  constexpr int bins = 100;
  std::vector<int> counts(bins);
  for (std::uint64_t i = 0; i < draws; ++i) {
    const float u = stream.uniform(i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ++counts[static_cast<std::size_t>(u * bins)];
  }
  double chi_squared = 0;
  for (const int count : counts) chi_squared += std::pow(count - draws / bins, 2) / (draws / bins);
  // 99 degrees of freedom: mean 99, standard deviation 14.
  EXPECT_GT(chi_squared, 99 - 3 * 14);
  EXPECT_LT(chi_squared, 99 + 3 * 14);
}

// Kolmogorov-Smirnov against the normal distribution, and no correlation between neighbours, which
// come from one block.
TEST(RandomStream, NormalIsNormal) {
  const RandomStream stream(1, "normal");
  constexpr std::size_t draws = 100'000;
  std::vector<double> values(draws);
  for (std::size_t i = 0; i < draws; ++i) values[i] = stream.normal(i);

  double product = 0;
  for (std::size_t i = 0; i + 1 < draws; i += 2) product += values[i] * values[i + 1];
  EXPECT_NEAR(product / (draws / 2), 0.0, 3 / std::sqrt(draws / 2));

  std::ranges::sort(values);
  double distance = 0;
  for (std::size_t i = 0; i < draws; ++i) {
    const double expected = 0.5 * std::erfc(-values[i] / std::sqrt(2.0));
    distance = std::max(distance, std::abs(expected - (static_cast<double>(i) + 0.5) / draws));
  }
  EXPECT_LT(distance, 1.63 / std::sqrt(draws));  // the 1 % point
}

TEST(RandomStream, NormalIsFiniteEverywhere) {
  const RandomStream stream(9, "normal");
  for (std::uint64_t i = 0; i < 10'000; ++i) ASSERT_TRUE(std::isfinite(stream.normal(~i)));
}

TEST(RandomStream, BelowIsUnbiased) {
  const RandomStream stream(1, "below");
  for (const std::uint64_t bound : {1u, 2u, 3u, 10u, 97u}) {
    constexpr int draws = 50'000;
    std::vector<int> counts(bound);
    for (std::uint64_t i = 0; i < draws; ++i) {
      const std::uint64_t value = stream.below(bound, i);
      ASSERT_LT(value, bound);
      ++counts[value];
    }
    const double expected = draws / static_cast<double>(bound);
    for (const int count : counts) EXPECT_NEAR(count, expected, 5 * std::sqrt(expected)) << bound;
  }
}

// With a bound of 3/4 of 2^64 a quarter of all first draws is rejected. Taken anyway, they would
// give the multiples of three twice as often as the others: half of all values instead of a third.
TEST(RandomStream, BelowRejects) {
  const RandomStream stream(1, "below");
  constexpr std::uint64_t bound = 0xC000000000000000u;
  constexpr int draws = 30'000;
  int multiples = 0;
  for (std::uint64_t i = 0; i < draws; ++i) {
    const std::uint64_t value = stream.below(bound, i);
    ASSERT_LT(value, bound);
    if (value % 3 == 0) ++multiples;
  }
  EXPECT_NEAR(multiples, draws / 3, 5 * std::sqrt(draws / 3));
}

TEST(RandomStream, BelowNothingIsAnError) {
  EXPECT_THROW(RandomStream(1, "below").below(0, 0), UsageError);
}

}  // namespace
}  // namespace lockstep::base

#include "comm/ring/algorithm_table.h"

#include <gmock/gmock.h>

#include "framework/base/error.h"

namespace lockstep::comm::ring {

namespace {

using testing::HasSubstr;

TEST(AlgorithmTable, ChoosesBySize) {
  const auto table = AlgorithmTable::parse("one_shot<=16KiB, ring <= 1MiB,two_shot");
  EXPECT_EQ(table.choose(0), Algorithm::one_shot);
  EXPECT_EQ(table.choose(16384), Algorithm::one_shot);
  EXPECT_EQ(table.choose(16385), Algorithm::ring);
  EXPECT_EQ(table.choose(1 << 20), Algorithm::ring);
  EXPECT_EQ(table.choose((1 << 20) + 1), Algorithm::two_shot);
}

TEST(AlgorithmTable, ANameAloneIsForAllSizes) {
  for (const std::string_view name : algorithm_names()) {
    const auto table = AlgorithmTable::parse(name);
    EXPECT_EQ(name_of(table.choose(0)), name);
    EXPECT_EQ(name_of(table.choose(std::size_t{1} << 40)), name);
  }
}

TEST(AlgorithmTable, MistakesSayWhatWasFoundAndExpected) {
  const auto expect_refused = [](const char* text, const char* found, const char* expected) {
    try {
      AlgorithmTable::parse(text);
      FAIL() << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(found), HasSubstr(expected))) << text;
    }
  };
  expect_refused("", "found \"\"", "one of ring");
  expect_refused("one_shot<=4KiB,", "found \"\"", "one of ring");
  expect_refused("tree<=4KiB, ring", "tree<=4KiB", "one of ring, two_shot");
  expect_refused("one_shot<=much, ring", "one_shot<=much", "a size");
  expect_refused("one_shot<=4KiB, ring<=4KiB, two_shot", "ring<=4KiB", "ascend");
  expect_refused("ring, two_shot", "two_shot", "ascend");
  expect_refused("one_shot<=4KiB", "one_shot<=4KiB", "without a size");
}

}  // namespace

}  // namespace lockstep::comm::ring

#include "framework/base/option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/error.h"

namespace lockstep::base {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Integers = std::vector<std::int64_t>;

const OptionValue null;

OptionSpec option(OptionKind kind) {
  return {.name = "key", .kind = kind, .doc = "A key."};
}

TEST(OptionValue, IsWrittenLikeYaml) {
  EXPECT_EQ(to_string(null), "null");
  EXPECT_EQ(to_string(OptionValue(true)), "true");
  EXPECT_EQ(to_string(OptionValue(std::int64_t{-3})), "-3");
  EXPECT_EQ(to_string(OptionValue(0.1)), "0.1");
  EXPECT_EQ(to_string(OptionValue("relu")), "relu");
  EXPECT_EQ(to_string(OptionValue(Integers{512, 256})), "[512, 256]");
  EXPECT_EQ(to_string(OptionValue(Integers{})), "[]");
}

TEST(Range, KnowsItsBounds) {
  EXPECT_TRUE(at_least(1).contains(1));
  EXPECT_FALSE(at_least(1).contains(0.999));
  EXPECT_FALSE(above(0).contains(0));
  EXPECT_TRUE(above(0).contains(1e-300));
  EXPECT_TRUE(between(-1, 1).contains(1));
  EXPECT_FALSE(between(-1, 1).contains(1.001));
  EXPECT_TRUE(from_below(0, 1).contains(0));
  EXPECT_FALSE(from_below(0, 1).contains(1));
  EXPECT_FALSE(Range().contains(std::nan("")));
  EXPECT_EQ(to_string(at_least(1)), ">= 1");
  EXPECT_EQ(to_string(above(0)), "> 0");
  EXPECT_EQ(to_string(between(0, 0.5)), "in [0, 0.5]");
  EXPECT_EQ(to_string(from_below(0, 1)), "in [0, 1)");
  EXPECT_EQ(to_string(Range{.maximum = 3, .without_maximum = true}), "< 3");
  EXPECT_EQ(to_string(Range()), "");
}

TEST(Checked, TakesWhatTheKindHolds) {
  EXPECT_EQ(checked(option(OptionKind::boolean), false), OptionValue(false));
  EXPECT_EQ(checked(option(OptionKind::integer), std::int64_t{7}), OptionValue(std::int64_t{7}));
  EXPECT_EQ(checked(option(OptionKind::integers), Integers{1, 2}), OptionValue(Integers{1, 2}));
  EXPECT_EQ(checked(option(OptionKind::real), 0.5), OptionValue(0.5));
  EXPECT_EQ(checked(option(OptionKind::real), std::int64_t{2}), OptionValue(2.0));
  EXPECT_EQ(checked(option(OptionKind::bytes), std::int64_t{1 << 20}),
            OptionValue(std::int64_t{1 << 20}));
  EXPECT_EQ(checked(option(OptionKind::text), "x"), OptionValue("x"));
}

TEST(Checked, RefusesOtherKinds) {
  EXPECT_THROW(checked(option(OptionKind::boolean), std::int64_t{1}), ConfigError);
  EXPECT_THROW(checked(option(OptionKind::integer), 1.0), ConfigError);
  EXPECT_THROW(checked(option(OptionKind::integer), true), ConfigError);
  EXPECT_THROW(checked(option(OptionKind::integers), std::int64_t{1}), ConfigError);
  EXPECT_THROW(checked(option(OptionKind::real), "1"), ConfigError);
  EXPECT_THROW(checked(option(OptionKind::real), std::nan("")), ConfigError);
  EXPECT_THROW(checked(option(OptionKind::real), HUGE_VAL), ConfigError);
  EXPECT_THROW(checked(option(OptionKind::text), 1.0), ConfigError);
  EXPECT_THROW(checked(option(OptionKind::text), null), ConfigError);
}

TEST(Checked, RangesWordsAndNull) {
  OptionSpec threads = option(OptionKind::integer);
  threads.range = at_least(1);
  threads.words = {"auto"};
  EXPECT_EQ(checked(threads, "auto"), OptionValue("auto"));
  EXPECT_THROW(checked(threads, "automatic"), ConfigError);
  EXPECT_THROW(checked(threads, std::int64_t{0}), ConfigError);
  EXPECT_THROW(checked(threads, null), ConfigError);
  threads.nullable = true;
  EXPECT_EQ(checked(threads, null), null);
  EXPECT_EQ(describe(threads), "integer >= 1, auto or null");

  OptionSpec widths = option(OptionKind::integers);
  widths.range = at_least(1);
  EXPECT_EQ(checked(widths, Integers{}), OptionValue(Integers{}));
  EXPECT_THROW(checked(widths, Integers{4, 0}), ConfigError);
}

TEST(Checked, NamesKeyValueAndExpectation) {
  OptionSpec activation = option(OptionKind::choice);
  activation.words = {"relu", "gelu", "tanh"};
  try {
    checked(activation, "rleu");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "key: found rleu, expected relu, gelu or tanh");
  }
}

TEST(Options, GivesTypedValuesAndSaysWhatItHolds) {
  const Options options = {{"flag", true},  {"count", std::int64_t{3}}, {"rate", 0.5},
                           {"name", "mlp"}, {"widths", Integers{1}},    {"none", OptionValue()}};
  EXPECT_TRUE(options.boolean("flag"));
  EXPECT_EQ(options.integer("count"), 3);
  EXPECT_EQ(options.real("rate"), 0.5);
  EXPECT_EQ(options.text("name"), "mlp");
  EXPECT_EQ(options.integers("widths"), Integers{1});
  EXPECT_TRUE(options.is_null("none"));
  EXPECT_FALSE(options.is_null("rate"));
  EXPECT_TRUE(options.is_word("name"));
  EXPECT_FALSE(options.is_word("count"));
  EXPECT_THROW(options.integer("rate"), UsageError);
  EXPECT_THROW(options.real("absent"), UsageError);
  EXPECT_THROW(options.is_null("absent"), UsageError);
}

TEST(Complete, FillsDefaultsAndRefusesWhatIsNotInTheTable) {
  std::vector<OptionSpec> specs = {option(OptionKind::real), option(OptionKind::text)};
  specs[0].name = "rate";
  specs[0].default_value = 0.1;
  specs[1].name = "file";
  specs[1].required = true;
  const Options all = complete(specs, {{"file", "a.h5"}});
  EXPECT_EQ(all, Options({{"rate", 0.1}, {"file", "a.h5"}}));
  EXPECT_EQ(complete(specs, {{"file", "a.h5"}, {"rate", std::int64_t{1}}}).real("rate"), 1.0);
  EXPECT_THROW(complete(specs, {}), ConfigError);
  try {
    complete(specs, {{"file", "a.h5"}, {"raet", 0.2}});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("raet"), HasSubstr("rate, file")));
  }
}

}  // namespace
}  // namespace lockstep::base

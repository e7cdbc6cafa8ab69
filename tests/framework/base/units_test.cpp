#include "framework/base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "framework/base/error.h"

namespace lockstep::base {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(1 << 20), "1.0 MiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.0 MiB");  // not "1024.0 KiB"
  EXPECT_EQ(format_bytes(std::uint64_t{7} << 39), "3.5 TiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(FormatDuration, PicksTheUnit) {
  EXPECT_EQ(format_duration(0), "0.0 s");
  EXPECT_EQ(format_duration(3.2e-8), "32 ns");
  EXPECT_EQ(format_duration(12.34e-6), "12.3 us");
  EXPECT_EQ(format_duration(12.34e-3), "12.3 ms");
  EXPECT_EQ(format_duration(0.99996), "1.0 s");  // not "1000.0 ms"
  EXPECT_EQ(format_duration(59.9), "59.9 s");
  EXPECT_EQ(format_duration(59.96), "1 min 0 s");  // not "60.0 s"
  EXPECT_EQ(format_duration(185.2), "3 min 5 s");
  EXPECT_EQ(format_duration(3599.6), "1 h 0 min");
  EXPECT_EQ(format_duration(8040), "2 h 14 min");
  EXPECT_EQ(format_duration(-0.5), "-500.0 ms");
  EXPECT_EQ(format_duration(-185), "-3 min 5 s");
}

TEST(ParseBytes, NumbersAndUnits) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("4096"), 4096u);
  EXPECT_EQ(parse_bytes("17 B"), 17u);
  EXPECT_EQ(parse_bytes("1GiB"), 1u << 30);
  EXPECT_EQ(parse_bytes("1.5 mib"), 3u << 19);
  EXPECT_EQ(parse_bytes("64KB"), 64'000u);
  EXPECT_EQ(parse_bytes("2 TiB"), std::uint64_t{2} << 40);
  EXPECT_EQ(parse_bytes("0.1KiB"), 102u);  // to the nearest byte
}

TEST(ParseBytes, NamesWhatIsWrong) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      parse_bytes(text);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message(""), HasSubstr("no number"));
  EXPECT_THAT(message("GiB"), HasSubstr("no number"));
  EXPECT_THAT(message("nan"), HasSubstr("no number"));
  EXPECT_THAT(message("-1GiB"), HasSubstr("negative"));
  EXPECT_THAT(message("1 apple"), AllOf(HasSubstr("'1 apple'"), HasSubstr("unknown unit 'apple'")));
  EXPECT_THAT(message("1 GiB 2"), HasSubstr("unknown unit"));
  EXPECT_THAT(message("1e3"), HasSubstr("unknown unit"));
  EXPECT_THAT(message("8388608 TiB"), HasSubstr("too large"));
}

}  // namespace
}  // namespace lockstep::base

#include "framework/base/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "framework/base/error.h"

namespace lockstep::base {
namespace {

using ::testing::HasSubstr;

constexpr std::array all_dtypes = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                                   DType::int32,   DType::int64,   DType::uint8};

TEST(DType, SizesNamesAndKinds) {
  for (const DType dtype : all_dtypes) {
    visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
      EXPECT_EQ(size_of(dtype), sizeof(T)) << name_of(dtype);
      EXPECT_EQ(dtype_of<T>(), dtype);
      EXPECT_EQ(is_floating(dtype), !std::is_integral_v<T>) << name_of(dtype);
    });
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
  EXPECT_EQ(name_of(DType::bfloat16), "bfloat16");
}

TEST(DType, UnknownNameListsTheKnownOnes) {
  try {
    dtype_from_name("float8");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'float8'"));
    for (const DType dtype : all_dtypes) {
      EXPECT_THAT(error.what(), HasSubstr(std::string(name_of(dtype))));
    }
  }
}

// A 16-bit format, for a reference that knows only the definition: sign, exponent, fraction.
struct Half {
  using type = float16;
  static constexpr int exponent_bits = 5;
};
struct Brain {
  using type = bfloat16;
  static constexpr int exponent_bits = 8;
};

template <class Format>
struct Reference {
  static constexpr int fraction_bits = 15 - Format::exponent_bits;
  static constexpr int bias = (1 << (Format::exponent_bits - 1)) - 1;
  static constexpr std::uint16_t infinity = ((1 << Format::exponent_bits) - 1) << fraction_bits;

  // The value of non-negative finite bits. Also of `infinity`, read as the next power of two, which
  // is how rounding sees it.
  static double value(std::uint16_t bits) {
    const int exponent = bits >> fraction_bits;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    if (exponent == 0) return std::ldexp(fraction, 1 - bias - fraction_bits);
    return std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  }

  // The nearest representable magnitude, ties to even bits.
  static std::uint16_t round(double magnitude) {
    if (magnitude >= value(infinity)) return infinity;
    std::uint16_t low = 0;
    std::uint16_t high = infinity;
    while (high - low > 1) {
      const auto middle = static_cast<std::uint16_t>((low + high) / 2);
      (value(middle) <= magnitude ? low : high) = middle;
    }
    const double below = magnitude - value(low);
    const double above = value(high) - magnitude;
    if (below != above) return below < above ? low : high;
    return low % 2 == 0 ? low : high;
  }
};

template <class Format>
class SixteenBits : public testing::Test {};
using Formats = testing::Types<Half, Brain>;
TYPED_TEST_SUITE(SixteenBits, Formats);

template <class Format>
void expect_rounds_right(float x) {
  using T = typename Format::type;
  const std::uint16_t magnitude = Reference<Format>::round(std::abs(static_cast<double>(x)));
  const auto expected = static_cast<std::uint16_t>(magnitude | (std::signbit(x) ? 0x8000 : 0));
  ASSERT_EQ(T(x).bits, expected) << std::hexfloat << x;
}

TYPED_TEST(SixteenBits, EveryFiniteValueIsExactInFloatAndComesBack) {
  using T = typename TypeParam::type;
  for (std::uint16_t bits = 0; bits < Reference<TypeParam>::infinity; ++bits) {
    T value;
    value.bits = bits;
    ASSERT_EQ(static_cast<double>(static_cast<float>(value)), Reference<TypeParam>::value(bits))
        << bits;
    ASSERT_EQ(T(static_cast<float>(value)).bits, bits);
    value.bits = static_cast<std::uint16_t>(bits | 0x8000);
    ASSERT_EQ(static_cast<double>(static_cast<float>(value)), -Reference<TypeParam>::value(bits));
    ASSERT_TRUE(std::signbit(static_cast<float>(value)));
    ASSERT_EQ(T(static_cast<float>(value)).bits, value.bits);
  }
}

// Between every two neighbours, the largest finite value and infinity included: the tie, and the
// floats just beside it.
TYPED_TEST(SixteenBits, TiesGoToEvenAndNothingElseDoes) {
  for (std::uint16_t bits = 0; bits < Reference<TypeParam>::infinity; ++bits) {
    const double low = Reference<TypeParam>::value(bits);
    const double high = Reference<TypeParam>::value(static_cast<std::uint16_t>(bits + 1));
    const auto tie = static_cast<float>(low + (high - low) / 2);
    for (const float x : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, HUGE_VALF)}) {
      expect_rounds_right<TypeParam>(x);
      expect_rounds_right<TypeParam>(-x);
    }
  }
}

TYPED_TEST(SixteenBits, RandomFloatsOfEveryMagnitude) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(x)) expect_rounds_right<TypeParam>(x);
  }
}

TYPED_TEST(SixteenBits, InfinityAndOverflow) {
  using T = typename TypeParam::type;
  constexpr std::uint16_t infinity = Reference<TypeParam>::infinity;
  EXPECT_EQ(T(HUGE_VALF).bits, infinity);
  EXPECT_EQ(T(-HUGE_VALF).bits, infinity | 0x8000);
  EXPECT_EQ(T(std::numeric_limits<float>::max()).bits, infinity);
  T value;
  value.bits = infinity;
  EXPECT_EQ(static_cast<float>(value), HUGE_VALF);
}

TYPED_TEST(SixteenBits, NanStaysNanAndQuiet) {
  using T = typename TypeParam::type;
  constexpr int quiet_bit = 1 << (Reference<TypeParam>::fraction_bits - 1);
  // Quiet; signalling; a payload that lives in the lowest bit alone and must not become infinity.
  for (const std::uint32_t bits : {0x7FC00000u, 0x7FA00000u, 0x7F800001u, 0x7FFFFFFFu}) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const T value(std::bit_cast<float>(bits | sign));
      EXPECT_TRUE(std::isnan(static_cast<float>(value))) << std::hex << bits;
      EXPECT_EQ(value.bits & quiet_bit, quiet_bit);
      EXPECT_EQ(value.bits >> 15, sign >> 31);
    }
  }
  for (std::uint32_t bits = Reference<TypeParam>::infinity + 1u; bits < 0x8000u; ++bits) {
    T value;
    value.bits = static_cast<std::uint16_t>(bits);
    ASSERT_TRUE(std::isnan(static_cast<float>(value)));
  }
}

}  // namespace
}  // namespace lockstep::base

#include "framework/base/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "framework/base/error.h"

namespace lockstep::base {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;
using ::testing::ThrowsMessage;

TEST(Shape, ExtentsAndCount) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[1], 3);
  EXPECT_EQ(shape.back(), 4);
  EXPECT_EQ(shape.count(), 24);
  EXPECT_EQ(to_string(shape), "[2, 3, 4]");

  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(to_string(Shape()), "[]");
  EXPECT_EQ((Shape{7, 0, 5}).count(), 0);
}

TEST(Shape, EqualWhenExtentsAre) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_NE(Shape(), Shape{0});  // the unused extents are zero
}

TEST(Shape, RefusesWhatIsNoShape) {
  EXPECT_THAT(
      [] {
        Shape({2, -1});
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("[2, -1]"), HasSubstr("negative"))));
  EXPECT_THAT(([] {
                Shape({1, 1, 1, 1, 1, 1, 1, 1, 1});
              }),
              ThrowsMessage<UsageError>(AllOf(HasSubstr("9 axes"), HasSubstr("at most 8"))));
  constexpr std::int64_t huge = std::int64_t{1} << 32;
  EXPECT_THAT(
      [] {
        Shape({huge, huge});
      },
      ThrowsMessage<UsageError>(HasSubstr("[4294967296, 4294967296]")));
  EXPECT_EQ((Shape{huge, 0, huge}).count(), 0);
  EXPECT_EQ((Shape{huge, huge / 4}).count(), std::int64_t{1} << 62);
}

TEST(Shape, NormalizedAxis) {
  const Shape shape{2, 3};
  EXPECT_EQ(shape.normalized_axis(0), 0);
  EXPECT_EQ(shape.normalized_axis(1), 1);
  EXPECT_EQ(shape.normalized_axis(-1), 1);
  EXPECT_EQ(shape.normalized_axis(-2), 0);
  EXPECT_THAT([&] { shape.normalized_axis(2); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("axis 2"), HasSubstr("[2, 3]"))));
  EXPECT_THROW(shape.normalized_axis(-3), UsageError);
  EXPECT_THROW(Shape().normalized_axis(0), UsageError);
}

TEST(Shape, ContiguousStridesAreRowMajor) {
  const Strides strides = contiguous_strides(Shape{2, 3, 4});
  EXPECT_EQ(strides[0], 12);
  EXPECT_EQ(strides[1], 4);
  EXPECT_EQ(strides[2], 1);
}

TEST(Broadcast, FollowsNumPy) {
  EXPECT_EQ(broadcast(Shape{4, 3}, Shape{3}), (Shape{4, 3}));
  EXPECT_EQ(broadcast(Shape{3}, Shape{4, 3}), (Shape{4, 3}));
  EXPECT_EQ(broadcast(Shape{4, 1}, Shape{1, 5}), (Shape{4, 5}));
  EXPECT_EQ(broadcast(Shape{}, Shape{2, 2}), (Shape{2, 2}));
  EXPECT_EQ(broadcast(Shape{1}, Shape{0}), Shape{0});  // 1 stretches to 0 as well
  EXPECT_EQ(broadcast(Shape{8, 1, 6, 1}, Shape{7, 1, 5}), (Shape{8, 7, 6, 5}));
}

TEST(Broadcast, NamesBothShapes) {
  EXPECT_THAT(
      [] {
        broadcast(Shape{4, 3}, Shape{4});
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("[4, 3]"), HasSubstr("[4]"))));
  EXPECT_THROW(broadcast(Shape{2}, Shape{0}), UsageError);
}

// Any shape and a copy of it with leading axes dropped and extents set to 1 broadcast back to it.
TEST(Broadcast, RandomShapesReturnToThemselves) {
  std::mt19937 random(7);
  const auto draw = [&](int bound) {
    return std::uniform_int_distribution<int>(0, bound - 1)(random);
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::int64_t> full(static_cast<std::size_t>(draw(Shape::max_rank + 1)));
    for (auto& extent : full) extent = draw(4);
    std::vector<std::int64_t> part(
        full.begin() + (full.empty() ? 0 : draw(static_cast<int>(full.size()))), full.end());
    for (auto& extent : part) {
      if (draw(2) == 0) extent = 1;
    }
    const Shape expected{std::span<const std::int64_t>(full)};
    const Shape other{std::span<const std::int64_t>(part)};
    EXPECT_EQ(broadcast(expected, other), expected);
    EXPECT_EQ(broadcast(other, expected), expected);
  }
}

}  // namespace
}  // namespace lockstep::base

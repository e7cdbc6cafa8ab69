#include "comm/bucketing/bucket_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/base/error.h"
#include "framework/base/random.h"

namespace lockstep::comm {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Gradients of these many elements, each beginning at a multiple of `alignment` elements.
SegmentLayout layout(const std::vector<std::int64_t>& counts, std::int64_t alignment = 1,
                     DType dtype = DType::float32) {
  SegmentLayout segment{.dtype = dtype};
  for (const std::int64_t count : counts) {
    const std::int64_t begin = (segment.count + alignment - 1) / alignment * alignment;
    segment.gradients.push_back({begin, begin + count});
    segment.count = begin + count;
  }
  return segment;
}

Bucket bucket(std::int64_t begin, std::int64_t end) {
  return {.begin = begin, .end = end};
}

BucketPlanOptions limits(std::size_t bytes) {
  return {.bucket_bytes = bytes, .first_bucket_bytes = bytes};
}

TEST(BucketPlan, PacksSmallGradientsUpToTheLimit) {
  const auto plan = plan_buckets({layout({10, 20, 30, 4})}, limits(256));  // 64 elements
  EXPECT_THAT(plan.buckets, ElementsAre(bucket(0, 64)));
}

TEST(BucketPlan, CutsTheGradientAtTheLimitOnACacheLine) {
  const auto plan = plan_buckets({layout({50, 50, 50})}, limits(256));
  EXPECT_THAT(plan.buckets, ElementsAre(bucket(0, 64), bucket(64, 128), bucket(128, 150)));
}

TEST(BucketPlan, ClosesABucketBeforeAGradientThatBeginsOnItsLimit) {
  const auto plan = plan_buckets({layout({60, 60}, 64)}, limits(256));
  EXPECT_THAT(plan.buckets, ElementsAre(bucket(0, 60), bucket(64, 124)));
}

TEST(BucketPlan, CutsALargeTensorIntoEqualBucketsOfItsOwn) {
  const auto plan = plan_buckets({layout({10, 160, 10}, 16)}, limits(256));
  EXPECT_THAT(plan.buckets, ElementsAre(bucket(0, 10), bucket(16, 64), bucket(64, 112),
                                        bucket(112, 176), bucket(176, 186)));
}

TEST(BucketPlan, MayFollowACostModel) {
  const CostModel cost{.latency = 1e-4, .bytes_per_second = 1e9};
  const SegmentLayout segment = layout({1 << 20, 1 << 20, 123});
  const auto total = static_cast<std::size_t>(segment.count) * 4;
  const std::size_t best = balanced_bucket_bytes(total, cost);
  const auto exposed = [&](std::size_t bytes) {
    return static_cast<double>(total) / static_cast<double>(bytes) * cost.latency +
           cost.seconds(bytes);
  };
  for (const std::size_t other : {best / 2, best - best / 10, best + best / 10, best * 2})
    EXPECT_LT(exposed(best), exposed(other));
  BucketPlanOptions options{.bucket_bytes = std::nullopt, .first_bucket_bytes = best, .cost = cost};
  const auto plan = plan_buckets({segment}, options);
  EXPECT_EQ(plan.buckets, plan_buckets({segment}, limits(best)).buckets);
  EXPECT_GT(plan.buckets.size(), 5u);
  // The dearer a collective, the fewer there are.
  options.cost.latency *= 100;
  options.first_bucket_bytes = total;
  EXPECT_LT(plan_buckets({segment}, options).buckets.size(), plan.buckets.size());
  EXPECT_EQ(balanced_bucket_bytes(1, cost), std::size_t{64} << 10);
  EXPECT_EQ(balanced_bucket_bytes(total, {.latency = 1e9, .bytes_per_second = 1e9}),
            std::size_t{64} << 20);
}

TEST(BucketPlan, FirstBucketMayBeSmaller) {
  const auto plan =
      plan_buckets({layout({100, 100})}, {.bucket_bytes = 512, .first_bucket_bytes = 128});
  EXPECT_THAT(plan.buckets, ElementsAre(bucket(0, 32), bucket(32, 160), bucket(160, 200)));
  // But not larger.
  const auto same =
      plan_buckets({layout({60, 60})}, {.bucket_bytes = 256, .first_bucket_bytes = 4096});
  EXPECT_EQ(same.buckets.front(), bucket(0, 64));
}

// PERF-2: 1,000 tiny parameters and one of 8 MB, limit 1 MB.
TEST(BucketPlan, LargeTensorSharesNoBucketWithTinyOnes) {
  for (const std::int64_t large : {std::int64_t{2'000'000}, std::int64_t{8} << 18}) {
    for (const std::size_t limit : {std::size_t{1'000'000}, std::size_t{1} << 20}) {
      std::vector<std::int64_t> counts(500, 7);
      counts.push_back(large);
      counts.insert(counts.end(), 500, 7);
      const SegmentLayout segment = layout(counts, 32);
      const auto plan = plan_buckets({segment}, limits(limit));
      const GradientRange whole = segment.gradients[500];
      std::size_t of_large = 0;
      for (const Bucket& b : plan.buckets) {
        EXPECT_LE(b.bytes(), limit);
        const bool overlaps = b.begin < whole.end && whole.begin < b.end;
        if (!overlaps) continue;
        ++of_large;
        EXPECT_TRUE(b.begin >= whole.begin && b.end <= whole.end) << "shared with tiny ones";
      }
      EXPECT_GE(of_large, static_cast<std::size_t>(large) * 4 / limit);
      EXPECT_LE(plan.buckets.size(), static_cast<std::size_t>(segment.count) * 4 / limit + 2 + 1);
      EXPECT_EQ(plan.buckets.size(), of_large + 2);
    }
  }
}

TEST(BucketPlan, CoversEveryGradientOnceWithinTheLimit) {
  const base::RandomStream random(7, "bucket plan test");
  std::uint64_t draw = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const auto below = [&](std::uint64_t bound) {
      return static_cast<std::int64_t>(random.below(bound, draw++));
    };
    std::vector<SegmentLayout> segments;
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64}) {
      std::vector<std::int64_t> counts;
      for (std::int64_t n = below(40); n > 0; --n)
        counts.push_back(below(4) == 0 ? below(5000) : below(40));
      segments.push_back(layout(counts, below(2) == 0 ? 1 : 32, dtype));
    }
    const BucketPlanOptions options = {
        .bucket_bytes = static_cast<std::size_t>(64 + below(8000)),
        .first_bucket_bytes = static_cast<std::size_t>(64 + below(8000))};
    const auto plan = plan_buckets(segments, options);
    std::vector<std::vector<int>> covered;
    for (const SegmentLayout& segment : segments)
      covered.emplace_back(static_cast<std::size_t>(segment.count));
    const Bucket* previous = nullptr;
    for (const Bucket& b : plan.buckets) {
      EXPECT_LT(b.begin, b.end);
      EXPECT_LE(b.bytes(), *options.bucket_bytes);
      EXPECT_EQ(b.dtype, segments[b.segment].dtype);
      if (previous) {
        EXPECT_TRUE(previous->segment < b.segment ||
                    (previous->segment == b.segment && previous->end <= b.begin));
      }
      previous = &b;
      for (std::int64_t i = b.begin; i < b.end; ++i)
        ++covered[b.segment][static_cast<std::size_t>(i)];
    }
    if (!plan.buckets.empty()) {
      const Bucket& first = plan.buckets.front();
      const auto& gradients = segments[first.segment].gradients;
      const auto gradient = std::find_if(gradients.begin(), gradients.end(),
                                         [](const auto& g) { return g.begin < g.end; });
      const bool is_large =
          static_cast<std::size_t>(gradient->end - gradient->begin) * base::size_of(first.dtype) >
          *options.bucket_bytes / 64 * 64;
      EXPECT_TRUE(is_large || first.bytes() <= options.first_bucket_bytes);
    }
    for (std::size_t s = 0; s < segments.size(); ++s)
      for (const GradientRange& gradient : segments[s].gradients)
        for (std::int64_t i = gradient.begin; i < gradient.end; ++i)
          ASSERT_EQ(covered[s][static_cast<std::size_t>(i)], 1)
              << "segment " << s << " element " << i;
  }
}

TEST(BucketPlan, CutsInsideTensorsKeepCacheLinesWhole) {
  const SegmentLayout segment = layout({100, 3, 1000, 77, 5000, 1}, 32);
  for (const Bucket& b : plan_buckets({segment}, limits(1024)).buckets) {
    const auto is_inside = [&](std::int64_t border) {
      return std::any_of(
          segment.gradients.begin(), segment.gradients.end(),
          [&](const GradientRange& g) { return g.begin < border && border < g.end; });
    };
    EXPECT_TRUE(!is_inside(b.begin) || b.begin % 16 == 0);
    EXPECT_TRUE(!is_inside(b.end) || b.end % 16 == 0);
  }
}

TEST(BucketPlan, EmptyInputsGiveNoBuckets) {
  EXPECT_TRUE(plan_buckets({}, {}).buckets.empty());
  EXPECT_TRUE(plan_buckets({layout({}), layout({0, 0})}, {}).buckets.empty());
  EXPECT_EQ(plan_buckets({}, {}).describe(), "no buckets");
}

TEST(BucketPlan, ListAndDescription) {
  const auto plan = plan_buckets({layout({1 << 20})}, limits(1 << 20));
  EXPECT_EQ(plan.describe(), "4 buckets of 1.0 MiB to 1.0 MiB, 4.0 MiB in all");
  EXPECT_EQ(plan.list(), plan_buckets({layout({1 << 20})}, limits(1 << 20)).list());
  EXPECT_NE(plan.list(), plan_buckets({layout({1 << 20})}, limits(1 << 19)).list());
  EXPECT_NE(plan.list(),
            plan_buckets({layout({1 << 20}, 1, DType::int32)}, limits(1 << 20)).list());
}

TEST(BucketPlan, RefusesWhatMakesNoSense) {
  const auto message = [](const std::vector<SegmentLayout>& segments,
                          const BucketPlanOptions& options) {
    try {
      plan_buckets(segments, options);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message({}, limits(63)), HasSubstr("63 bytes"));
  EXPECT_THAT(message({{.count = 10, .gradients = {{5, 11}}}}, {}), HasSubstr("[5, 11)"));
  EXPECT_THAT(message({{.count = 10, .gradients = {{0, 5}, {4, 6}}}}, {}), HasSubstr("[4, 6)"));
  EXPECT_THAT(message({{.count = 10, .gradients = {{5, 4}}}}, {}), HasSubstr("[5, 4)"));
}

}  // namespace

}  // namespace lockstep::comm

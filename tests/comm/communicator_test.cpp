#include "comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/signature.h"

namespace lockstep::comm {

namespace {

using testing::HasSubstr;

TEST(SliceOf, CutsWithoutGapsIntoNearlyEqualParts) {
  const std::int64_t huge = (std::int64_t{1} << 62) + 12345;
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{7},
                                   std::int64_t{8}, std::int64_t{7919}, huge}) {
    for (int size = 1; size <= 9; ++size) {
      std::int64_t end = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Slice slice = slice_of(count, rank, size);
        EXPECT_EQ(slice.begin, end);
        EXPECT_GE(slice.count(), count / size);
        EXPECT_LE(slice.count(), count / size + 1);
        end = slice.end;
      }
      EXPECT_EQ(end, count);
    }
  }
}

TEST(Work, DefaultIsDone) {
  EXPECT_TRUE(Work().done());
  Work().wait();
}

TEST(Capabilities, AverageOfIntegersIsNobodys) {
  const Capabilities capabilities = {.dtypes = {DType::float16, DType::int32},
                                     .ops = {ReduceOp::sum, ReduceOp::avg},
                                     .collectives = {},
                                     .devices = {}};
  EXPECT_TRUE(capabilities.reduces(DType::float16, ReduceOp::avg));
  EXPECT_TRUE(capabilities.reduces(DType::int32, ReduceOp::sum));
  EXPECT_FALSE(capabilities.reduces(DType::int32, ReduceOp::avg));
  EXPECT_FALSE(capabilities.reduces(DType::int32, ReduceOp::max));
  EXPECT_FALSE(capabilities.reduces(DType::float32, ReduceOp::sum));
}

TEST(Signature, Words) {
  Signature signature = {.sequence = 17,
                         .count = 1000,
                         .tag = 3,
                         .kind = CollectiveKind::all_reduce,
                         .dtype = DType::float32};
  EXPECT_EQ(to_string(signature), "all_reduce number 17 (bucket 3, 1000 float32, sum)");
  signature.kind = CollectiveKind::broadcast;
  signature.tag = no_tag;
  signature.root = 2;
  EXPECT_EQ(to_string(signature), "broadcast number 17 (1000 float32, root 2)");
  EXPECT_EQ(to_string({.sequence = 4, .kind = CollectiveKind::barrier}), "barrier number 4");
}

RankError disagreement(const std::vector<Signature>& by_rank) {
  try {
    check_agreement(by_rank);
  } catch (const RankError& error) {
    return error;
  }
  return RankError(-2, "they agree");
}

TEST(Signature, DisagreementNamesBothSidesAndTheOddOneOut) {
  const Signature a = {.count = 1000, .kind = CollectiveKind::all_reduce, .dtype = DType::float32};
  Signature b = a;
  b.count = 998;
  EXPECT_EQ(disagreement({a, a, a}).rank(), -2);
  const RankError odd = disagreement({a, a, b, a});
  EXPECT_EQ(odd.rank(), 2);
  EXPECT_THAT(
      odd.what(),
      HasSubstr("rank 2 called all_reduce number 0 (998 float32, sum), but ranks 0, 1, 3 called "
                "all_reduce number 0 (1000 float32, sum)"));
  EXPECT_EQ(disagreement({a, b}).rank(), -1);
  EXPECT_EQ(disagreement({a, a, b, b}).rank(), -1);
}

TEST(Signature, DisagreementOfAlgorithmsIsSeen) {
  const Signature a = {.count = 8, .kind = CollectiveKind::all_reduce, .algorithm = 1};
  Signature b = a;
  b.algorithm = 2;
  EXPECT_THAT(disagreement({a, b, a}).what(), HasSubstr("by algorithm 2, but ranks 0, 2"));
}

}  // namespace

}  // namespace lockstep::comm

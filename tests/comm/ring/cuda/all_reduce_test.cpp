// all_reduce between GPUs: values, sizes, alignment, and equal bits on all ranks.
#include <gtest/gtest.h>

#include <mutex>

#include "tests/comm/ring/cuda/cuda_ranks.h"

namespace lockstep::comm::ring::cuda {
namespace {

// Small whole numbers: every order of summation is exact.
std::vector<float> whole_numbers(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 101);
  return values;
}

std::vector<float> sums_of_whole_numbers(int ranks, std::size_t count) {
  std::vector<float> sums(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = whole_numbers(rank, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
  }
  return sums;
}

class AllReduce : public testing::TestWithParam<int> {};

TEST_P(AllReduce, SumsOfAllSizes) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  run_cuda_ranks(GetParam(), [&](CudaRank& rank) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, ranks - 1, ranks, ranks + 1,
                                    std::size_t{997}, std::size_t{7919}}) {
      // Each rank's data begins at another distance from a multiple of 16 bytes.
      const OnGpu<float> data(rank.context(), whole_numbers(rank.index(), count),
                              static_cast<std::size_t>(rank.index() % 3));
      rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag).wait();
      EXPECT_EQ(data.values(), sums_of_whole_numbers(rank.size(), count)) << count;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllReduce, testing::Range(2, 9));

}  // namespace
}  // namespace lockstep::comm::ring::cuda

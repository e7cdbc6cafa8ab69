// all_reduce between GPUs: values, sizes, alignment, and equal bits on all ranks.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/comm/ring/cuda/cuda_ranks.h"
#include "tests/comm/ring/cuda/whole_numbers.h"

namespace lockstep::comm::ring::cuda {
namespace {

// Every rank's data begins at another distance from a multiple of 16 bytes.
template <class T>
void expect_sum(CudaRank& rank, std::size_t count) {
  const OnGpu<T> data(rank.context(), whole_numbers<T>(rank.index(), count),
                      static_cast<std::size_t>(rank.index() % 3));
  rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag).wait();
  EXPECT_EQ(data.values(), sums_of_whole_numbers<T>(rank.size(), count))
      << count << " " << base::name_of(base::dtype_of<T>());
}

// By number of ranks and algorithm.
class AllReduce : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(AllReduce, SumsOfAllSizesAndTypes) {
  const auto& [ranks, algorithm] = GetParam();
  const auto n = static_cast<std::size_t>(ranks);
  run_cuda_ranks(ranks,
                 [&](CudaRank& rank) {
                   for (const std::size_t count :
                        {std::size_t{0}, std::size_t{1}, n - 1, n + 1, std::size_t{997}}) {
                     expect_sum<float>(rank, count);
                     expect_sum<bfloat16>(rank, count);
                     expect_sum<float16>(rank, count);
                   }
                   expect_sum<float>(rank, 4999);
                 },
                 {.options = {.timeout = std::chrono::seconds(20), .algorithm = algorithm}});
}

INSTANTIATE_TEST_SUITE_P(CudaRing, AllReduce,
                         testing::Combine(testing::Range(2, 9),
                                          testing::Values("ring", "one_shot", "two_shot")),
                         [](const auto& test) {
                           return std::get<1>(test.param) + "_of_" +
                                  std::to_string(std::get<0>(test.param));
                         });

}  // namespace
}  // namespace lockstep::comm::ring::cuda

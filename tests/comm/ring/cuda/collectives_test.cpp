// The collectives beside all_reduce between GPUs: all numbers of ranks, three types, odd sizes,
// misaligned data. (The conformance suite has more sizes, types and operations, for fewer ranks in
// everyday runs.)
#include <gtest/gtest.h>

#include "tests/comm/ring/cuda/cuda_ranks.h"
#include "tests/comm/ring/cuda/whole_numbers.h"

namespace lockstep::comm::ring::cuda {
namespace {

// One rank's side, for one type and size.
template <class T>
class Collectives {
 public:
  Collectives(CudaRank& rank, std::size_t count) : rank_(rank), count_(count) {}

  void check_all() {
    for (int root = 0; root < rank_.size(); ++root) {
      check_reduce(root);
      check_broadcast(root);
    }
    check_reduce_scatter();
    check_all_gather();
    check_all_to_all();
  }

 private:
  std::vector<T> given(int rank) const { return whole_numbers<T>(rank, count_); }
  std::vector<T> sums() const { return sums_of_whole_numbers<T>(rank_.size(), count_); }
  // Every rank's data begins at another distance from a multiple of 16 bytes.
  OnGpu<T> on_gpu(const std::vector<T>& values) const {
    return {rank_.context(), values, static_cast<std::size_t>(rank_.index() % 3)};
  }
  Slice slice(int rank) const {
    return slice_of(static_cast<std::int64_t>(count_), rank, rank_.size());
  }

  void check_reduce(int root) {
    const OnGpu<T> data = on_gpu(given(rank_.index()));
    rank_.communicator().reduce(data.range(), ReduceOp::sum, root, rank_.stream(), no_tag).wait();
    if (rank_.index() == root) {
      EXPECT_EQ(data.values(), sums());
    }
  }

  void check_broadcast(int root) {
    const OnGpu<T> data = on_gpu(given(rank_.index()));
    rank_.communicator().broadcast(data.range(), root, rank_.stream(), no_tag).wait();
    EXPECT_EQ(data.values(), given(root));
  }

  void check_reduce_scatter() {
    const OnGpu<T> data = on_gpu(given(rank_.index()));
    rank_.communicator().reduce_scatter(data.range(), ReduceOp::sum, rank_.stream(), no_tag).wait();
    expect_slice(data.values(), sums(), slice(rank_.index()));
  }

  void check_all_gather() {
    const OnGpu<T> data = on_gpu(given(rank_.index()));
    rank_.communicator().all_gather(data.range(), rank_.stream(), no_tag).wait();
    const std::vector<T> found = data.values();
    for (int from = 0; from < rank_.size(); ++from) expect_slice(found, given(from), slice(from));
  }

  // Slices of count_ elements.
  void check_all_to_all() {
    const auto ranks = static_cast<std::size_t>(rank_.size());
    const auto own = static_cast<std::size_t>(rank_.index()) * count_;
    const OnGpu<T> sent = on_gpu(whole_numbers<T>(rank_.index(), ranks * count_));
    const OnGpu<T> received = on_gpu(std::vector<T>(ranks * count_));
    rank_.communicator().all_to_all(sent.range(), received.range(), rank_.stream(), no_tag).wait();
    const std::vector<T> found = received.values();
    for (std::size_t from = 0; from < ranks; ++from) {
      const std::vector<T> all = whole_numbers<T>(static_cast<int>(from), ranks * count_);
      for (std::size_t i = 0; i < count_; ++i) ASSERT_EQ(found[from * count_ + i], all[own + i]);
    }
  }

  static void expect_slice(const std::vector<T>& found, const std::vector<T>& expected,
                           Slice slice) {
    for (auto i = static_cast<std::size_t>(slice.begin); i < static_cast<std::size_t>(slice.end);
         ++i)
      ASSERT_EQ(found[i], expected[i]) << "element " << i;
  }

  CudaRank& rank_;
  std::size_t count_;
};

class OtherCollectives : public testing::TestWithParam<int> {};

TEST_P(OtherCollectives, MoveAndReduceAllSizesAndTypes) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  run_cuda_ranks(GetParam(), [&](CudaRank& rank) {
    for (const std::size_t count : {ranks - 1, 4 * ranks + 1, std::size_t{397}}) {
      SCOPED_TRACE(count);
      Collectives<float>(rank, count).check_all();
      Collectives<bfloat16>(rank, count).check_all();
      Collectives<float16>(rank, count).check_all();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(CudaRing, OtherCollectives, testing::Range(2, 9));

}  // namespace
}  // namespace lockstep::comm::ring::cuda

// What ranks see when one of them is late, out of step, or gone: the same error on every rank, in
// time, and again at every later call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/ring/cuda/cuda_ranks.h"

namespace lockstep::comm::ring::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t count = 500;

struct Seen {
  int rank = -2;
  std::string what;
};

Seen failure_of(const std::function<Work()>& call) {
  try {
    call().wait();
  } catch (const RankError& error) {
    return {error.rank(), error.what()};
  }
  return {};
}

class Faults : public testing::TestWithParam<std::string> {
 protected:
  RankOptions with_timeout(std::chrono::milliseconds timeout) const {
    return {.options = {.timeout = timeout, .algorithm = GetParam()}};
  }
};

TEST_P(Faults, ARankThatStopsLaunchingIsNamed) {
  run_cuda_ranks(
      4,
      [](CudaRank& rank) {
        const OnGpu<float> data(rank.context(), std::vector<float>(count, 1.0f));
        const auto reduce = [&] {
          return rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), 3);
        };
        reduce().wait();
        if (rank.index() == 1) return;
        const auto start = device::Clock::now();
        const Seen seen = failure_of(reduce);
        EXPECT_EQ(seen.rank, 1);
        EXPECT_THAT(seen.what, AllOf(HasSubstr("rank 1 did not arrive at all_reduce number 1"),
                                     HasSubstr("bucket 3"), HasSubstr("within 2 s")));
        EXPECT_LT(device::Clock::now() - start, std::chrono::seconds(4));
        EXPECT_EQ(failure_of(reduce).what, seen.what);
      },
      with_timeout(std::chrono::seconds(2)));
}

TEST_P(Faults, AnAbortEndsTheWaitsOfAll) {
  run_cuda_ranks(
      4,
      [](CudaRank& rank) {
        const OnGpu<float> data(rank.context(), std::vector<float>(count, 1.0f));
        const auto start = device::Clock::now();
        if (rank.index() == 2) {
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          rank.communicator().abort(2, "rank 2 has lost its data");
          rank.communicator().abort(2, "and more");
        }
        const Seen seen = failure_of([&] {
          return rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag);
        });
        EXPECT_EQ(seen.rank, 2);
        EXPECT_EQ(seen.what, "rank 2 has lost its data");
        EXPECT_LT(device::Clock::now() - start, std::chrono::seconds(2));
      },
      with_timeout(std::chrono::seconds(60)));
}

// So that kernels behind the collective can leave its result alone.
TEST_P(Faults, AFailureIsRaisedOnTheGpuBeforeTheWorkBehindIt) {
  run_cuda_ranks(
      3,
      [](CudaRank& rank) {
        const OnGpu<float> data(rank.context(), std::vector<float>(count, 1.0f));
        const OnGpu<std::int32_t> words(rank.context(), {0, 0});
        const OnGpu<std::int32_t> behind(rank.context(), {7, 7});
        const auto reduce = [&] {
          const Work work =
              rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag);
          rank.context().copy(behind.range().data, words.range().data, 2 * sizeof(std::int32_t),
                              rank.stream());
          return work;
        };
        EXPECT_THROW(rank.communicator().raise_on_failure(data.range()), UsageError);
        rank.communicator().raise_on_failure(words.range());
        reduce().wait();
        rank.stream().synchronize();
        EXPECT_EQ(behind.values(), (std::vector<std::int32_t>{0, 0}));
        if (rank.index() == 1) return;
        EXPECT_EQ(failure_of(reduce).rank, 1);
        rank.stream().synchronize();
        EXPECT_EQ(behind.values(), (std::vector<std::int32_t>{1, 1}));
      },
      with_timeout(std::chrono::seconds(2)));
}

// What `odd` calls on rank 2 and `usual` on the others ends with one error that has both words.
void expect_disagreement(const RankOptions& how, const std::function<Work(CudaRank&, Range)>& usual,
                         const std::function<Work(CudaRank&, Range)>& odd,
                         const std::string& usual_words, const std::string& odd_words) {
  run_cuda_ranks(
      4,
      [&](CudaRank& rank) {
        const OnGpu<float> data(rank.context(), std::vector<float>(count, 1.0f));
        const Seen seen =
            failure_of([&] { return (rank.index() == 2 ? odd : usual)(rank, data.range()); });
        EXPECT_EQ(seen.rank, 2);
        EXPECT_THAT(seen.what, AllOf(HasSubstr("ranks disagree"), HasSubstr(usual_words),
                                     HasSubstr(odd_words)));
      },
      how);
}

TEST_P(Faults, RanksThatDisagreeAllSaySo) {
  const RankOptions how = with_timeout(std::chrono::seconds(20));
  const auto all_reduce = [](CudaRank& rank, Range data) {
    return rank.communicator().all_reduce(data, ReduceOp::sum, rank.stream(), no_tag);
  };
  expect_disagreement(
      how, all_reduce,
      [&](CudaRank& rank, Range data) {
        return all_reduce(rank, {data.data, data.count - 2, data.dtype});
      },
      "500 float32", "498 float32");
  expect_disagreement(
      how, all_reduce,
      [&](CudaRank& rank, Range data) {
        return all_reduce(rank, {data.data, data.count, DType::int32});
      },
      "float32", "int32");
  expect_disagreement(
      how,
      [](CudaRank& rank, Range data) {
        return rank.communicator().broadcast(data, 1, rank.stream(), no_tag);
      },
      all_reduce, "broadcast number 0", "all_reduce number 0");
  // Far apart: other algorithms, other numbers of channels.
  expect_disagreement(
      how, all_reduce,
      [&](CudaRank& rank, Range data) {
        return all_reduce(rank, {data.data, 1, data.dtype});
      },
      "500 float32", "1 float32");
}

// The same between collectives of all kinds, and of one kind with other arguments.
TEST(CudaRing, DisagreementIsFoundInAllCollectives) {
  using Call = std::function<Work(CudaRank&, Range)>;
  const Call reduce_scatter = [](CudaRank& rank, Range data) {
    return rank.communicator().reduce_scatter(data, ReduceOp::sum, rank.stream(), 3);
  };
  const Call all_gather = [](CudaRank& rank, Range data) {
    return rank.communicator().all_gather(data, rank.stream(), no_tag);
  };
  const auto reduce = [](ReduceOp op, int root) -> Call {
    return [=](CudaRank& rank, Range data) {
      return rank.communicator().reduce(data, op, root, rank.stream(), no_tag);
    };
  };
  const auto broadcast = [](int root) -> Call {
    return [=](CudaRank& rank, Range data) {
      return rank.communicator().broadcast(data, root, rank.stream(), no_tag);
    };
  };
  const Call all_to_all = [](CudaRank& rank, Range data) {
    const std::int64_t half = data.count / 8 * 4;
    return rank.communicator().all_to_all(
        {data.data, half, data.dtype},
        {static_cast<std::byte*>(data.data) + data.bytes() / 2, half, data.dtype}, rank.stream(),
        no_tag);
  };
  const Call barrier = [](CudaRank& rank, Range) {
    return rank.communicator().barrier(rank.stream());
  };
  const auto less = [](const Call& call) -> Call {
    return [=](CudaRank& rank, Range data) {
      return call(rank, {data.data, data.count / 2, data.dtype});
    };
  };
  const auto integers = [](const Call& call) -> Call {
    return [=](CudaRank& rank, Range data) {
      return call(rank, {data.data, data.count, DType::int32});
    };
  };
  const auto expect = [](const Call& usual, const Call& odd, const std::string& usual_words,
                         const std::string& odd_words) {
    SCOPED_TRACE(usual_words + " against " + odd_words);
    expect_disagreement({}, usual, odd, usual_words, odd_words);
  };
  expect(reduce_scatter, all_gather, "reduce_scatter number 0", "all_gather number 0");
  expect(reduce_scatter, less(reduce_scatter), "500 float32", "250 float32");
  expect(all_gather, integers(all_gather), "float32", "int32");
  expect(reduce(ReduceOp::sum, 1), reduce(ReduceOp::sum, 3), "root 1", "root 3");
  expect(reduce(ReduceOp::sum, 1), reduce(ReduceOp::max, 1), "sum", "max");
  expect(broadcast(0), broadcast(2), "root 0", "root 2");
  expect(broadcast(0), less(broadcast(0)), "500 float32", "250 float32");
  expect(all_to_all, all_gather, "all_to_all number 0", "all_gather number 0");
  expect(all_to_all, less(all_to_all), "248 float32", "124 float32");
  expect(barrier, reduce_scatter, "barrier number 0", "bucket 3");
}

INSTANTIATE_TEST_SUITE_P(Ring, Faults, testing::Values("ring", "one_shot", "two_shot"),
                         [](const auto& test) { return test.param; });

TEST(CudaRingArguments, AreRefusedBeforeAnythingIsLaunched) {
  run_cuda_ranks(2, [](CudaRank& rank) {
    CudaRingCommunicator& ring = rank.communicator();
    const OnGpu<float> data(rank.context(), std::vector<float>(count, 1.0f));
    Range negative = data.range();
    negative.count = -1;
    EXPECT_THROW(ring.all_reduce(negative, ReduceOp::sum, rank.stream(), no_tag), UsageError);
    EXPECT_THROW(ring.broadcast(data.range(), 2, rank.stream(), no_tag), UsageError);
    Range integers = data.range();
    integers.dtype = DType::int32;
    EXPECT_THROW(ring.all_reduce(integers, ReduceOp::avg, rank.stream(), no_tag), UsageError);
    if (const int gpus = device::cuda_devices().count; gpus > 1) {
      const auto other =
          device::make_cuda_context((rank.context().device().index + 1) % gpus, rank.index());
      const auto stream = other->make_stream("of another GPU");
      EXPECT_THROW(ring.barrier(*stream), UsageError);
    }
    ring.barrier(rank.stream()).wait();
  });
}

TEST(CudaRingArguments, AnUnknownAlgorithmIsRefused) {
  EXPECT_THROW(algorithm_from_name("halving_doubling"), ConfigError);
}

TEST(CudaRingArguments, ShapesThatTheKernelsCannotHaveAreRefused) {
  std::vector<Shape> shapes(5, small_shape);
  shapes[0].channels = 0;
  shapes[1].threads = 48;
  shapes[2].threads = 2 * most_threads;
  shapes[3].slot_bytes = 600;
  shapes[4].packs = 31;
  for (const Shape& shape : shapes) {
    auto groups = make_thread_groups(2);
    std::vector<std::thread> threads;
    for (auto& group : groups)
      threads.emplace_back(
          [&] { EXPECT_THROW(CudaRingCommunicator(std::move(group), 0, {}, shape), UsageError); });
    for (std::thread& thread : threads) thread.join();
  }
}

// As many blocks as the GPU holds, shared among its ranks.
TEST(CudaRing, RanksOfOneGpuShareItsRoom) {
  RankOptions how;
  how.devices = 1;
  how.shape.channels = 1000;
  run_cuda_ranks(
      3,
      [](CudaRank& rank) {
        const OnGpu<float> data(rank.context(), std::vector<float>(20'000, 1.0f));
        rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag).wait();
        EXPECT_EQ(data.values(), std::vector<float>(20'000, 3.0f));
      },
      how);
}

TEST(CudaRing, MoreRanksThanAGpuHasRoomForAreRefused) {
  const int ranks = 20;
  auto groups = make_thread_groups(ranks);
  std::vector<std::thread> threads;
  for (auto& group : groups)
    threads.emplace_back([&] {
      Shape large = small_shape;
      large.threads = most_threads;
      large.slot_bytes = 4096;
      try {
        CudaRingCommunicator ring(std::move(group), 0, {}, large);
        EXPECT_GE(device::describe_cuda_device(0).multiprocessors, ranks) << "there is no room";
      } catch (const StartupError& error) {
        EXPECT_THAT(error.what(), HasSubstr("too few for its 20 ranks"));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lockstep::comm::ring::cuda

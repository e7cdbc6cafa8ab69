// A GPU that stands still in the middle of a collective, which only the emulation can do at will:
// the other ranks end in time and name the rank it belongs to; whoever does not fail has the right
// result; and an abort reaches ranks that wait for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <optional>

#include "tests/comm/ring/cuda/cuda_ranks.h"
#include "tests/emulation/machine.h"

namespace lockstep::comm::ring::cuda {
namespace {

using emulation::Machine;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int ranks = 4;
constexpr int frozen = 1;
constexpr std::int64_t count = 800;

float given(int rank, std::int64_t i) {
  return static_cast<float>((i * 7 + rank * 3) % 101);
}

float sum_of_all(std::int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += given(rank, i);
  return sum;
}

struct Case {
  std::string name;
  std::string algorithm;
  Work (*call)(CudaRank& rank, Range data, Range receive);
  // What element `i` of the result on a rank must be; nothing where that is not said.
  std::optional<float> (*result)(int rank, std::int64_t i);
  bool received = false;  // whether the result is in the second range
};

Work all_reduce(CudaRank& rank, Range data, Range) {
  return rank.communicator().all_reduce(data, ReduceOp::sum, rank.stream(), no_tag);
}

bool is_in_slice(int rank, std::int64_t i) {
  const Slice slice = slice_of(count, rank, ranks);
  return i >= slice.begin && i < slice.end;
}

const std::vector<Case>& cases() {
  static const auto everywhere = [](int, std::int64_t i) {
    return std::optional<float>(sum_of_all(i));
  };
  static const std::vector<Case> all = {
      {"all_reduce_by_ring", "ring", all_reduce, everywhere},
      {"all_reduce_in_one_shot", "one_shot", all_reduce, everywhere},
      {"all_reduce_in_two_shots", "two_shot", all_reduce, everywhere},
      {"reduce_scatter", "auto",
       [](CudaRank& rank, Range data, Range) {
         return rank.communicator().reduce_scatter(data, ReduceOp::sum, rank.stream(), no_tag);
       },
       [](int rank, std::int64_t i) {
         return is_in_slice(rank, i) ? std::optional(sum_of_all(i)) : std::nullopt;
       }},
      {"all_gather", "auto",
       [](CudaRank& rank, Range data, Range) {
         return rank.communicator().all_gather(data, rank.stream(), no_tag);
       },
       [](int, std::int64_t i) {
         for (int from = 0; from < ranks; ++from)
           if (is_in_slice(from, i)) return std::optional(given(from, i));
         return std::optional<float>();
       }},
      {"broadcast_of_the_frozen", "auto",
       [](CudaRank& rank, Range data, Range) {
         return rank.communicator().broadcast(data, frozen, rank.stream(), no_tag);
       },
       [](int, std::int64_t i) { return std::optional(given(frozen, i)); }},
      {"broadcast_through_the_frozen", "auto",
       [](CudaRank& rank, Range data, Range) {
         return rank.communicator().broadcast(data, 0, rank.stream(), no_tag);
       },
       [](int, std::int64_t i) { return std::optional(given(0, i)); }},
      {"reduce_through_the_frozen", "auto",
       [](CudaRank& rank, Range data, Range) {
         return rank.communicator().reduce(data, ReduceOp::sum, 3, rank.stream(), no_tag);
       },
       [](int rank, std::int64_t i) {
         return rank == 3 ? std::optional(sum_of_all(i)) : std::nullopt;
       }},
      {"all_to_all", "auto",
       [](CudaRank& rank, Range data, Range receive) {
         return rank.communicator().all_to_all(data, receive, rank.stream(), no_tag);
       },
       [](int rank, std::int64_t i) {
         constexpr std::int64_t slice = count / ranks;
         return std::optional(given(static_cast<int>(i / slice), rank * slice + i % slice));
       },
       true},
  };
  return all;
}

std::vector<float> given_by(int rank) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(given(rank, i));
  return values;
}

// What a call failed with; nothing where it went well.
std::optional<RankError> failure_of(const Work& work) {
  try {
    work.wait();
  } catch (const RankError& error) {
    return error;
  }
  return std::nullopt;
}

class Frozen : public testing::TestWithParam<Case> {
 protected:
  // Runs the case with a GPU that stands still after `steps` of its kernel's threads. Returns how
  // many ranks failed.
  int run_with_freeze_after(std::uint64_t steps) {
    std::barrier<> together(ranks);
    std::atomic<int> failed = 0;
    run_cuda_ranks(ranks,
                   [&](CudaRank& rank) {
                     const OnGpu<float> data(rank.context(), given_by(rank.index()));
                     const OnGpu<float> receive(rank.context(), std::vector<float>(count, -1.0f));
                     rank.communicator().barrier(rank.stream()).wait();
                     together.arrive_and_wait();
                     if (rank.index() == frozen) Machine::current().hold_device(frozen, steps);
                     together.arrive_and_wait();
                     const auto start = device::Clock::now();
                     const Work work = GetParam().call(rank, data.range(), receive.range());
                     std::optional<RankError> error;
                     if (rank.index() != frozen) error = failure_of(work);
                     EXPECT_LT(device::Clock::now() - start, timeout + std::chrono::seconds(1));
                     together.arrive_and_wait();
                     if (rank.index() == frozen) {
                       Machine::current().release_device();
                       error = failure_of(work);
                     }
                     if (error) {
                       ++failed;
                       EXPECT_EQ(error->rank(), frozen) << error->what();
                       EXPECT_THAT(error->what(), AnyOf(HasSubstr("rank 1 did not arrive at"),
                                                        HasSubstr("rank 1 did not finish")));
                       EXPECT_THAT(error->what(), HasSubstr("number 1 ("));
                       EXPECT_THAT(error->what(), HasSubstr("within 2 s"));
                     } else {
                       expect_result(rank, GetParam().received ? receive : data);
                     }
                   },
                   {.options = {.timeout = timeout, .algorithm = GetParam().algorithm}});
    return failed;
  }

  static constexpr std::chrono::seconds timeout{2};

 private:
  void expect_result(const CudaRank& rank, const OnGpu<float>& found) const {
    const std::vector<float> values = found.values();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::optional<float> expected = GetParam().result(rank.index(), i);
      if (expected) {
        ASSERT_EQ(values[static_cast<std::size_t>(i)], *expected)
            << "element " << i << " of rank " << rank.index();
      }
    }
  }
};

// Before its kernel begins, in the meeting of the ranks, and on the way.
TEST_P(Frozen, IsNamedByTheOthers) {
  EXPECT_EQ(run_with_freeze_after(0), ranks);
  for (const std::uint64_t steps : {30, 100, 200, 400, 800}) {
    SCOPED_TRACE("after " + std::to_string(steps) + " steps");
    run_with_freeze_after(steps);
  }
}

// All wait for it, long before their deadline, when one of them gives up.
TEST_P(Frozen, AnAbortReachesThoseWhoWaitForIt) {
  std::barrier<> together(ranks);
  run_cuda_ranks(
      ranks,
      [&](CudaRank& rank) {
        const OnGpu<float> data(rank.context(), given_by(rank.index()));
        const OnGpu<float> receive(rank.context(), std::vector<float>(count, -1.0f));
        rank.communicator().barrier(rank.stream()).wait();
        together.arrive_and_wait();
        if (rank.index() == frozen) Machine::current().hold_device(frozen, 50);
        together.arrive_and_wait();
        const auto start = device::Clock::now();
        const Work work = GetParam().call(rank, data.range(), receive.range());
        if (rank.index() == 3) {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          rank.communicator().abort(3, "rank 3 has lost its data");
        }
        std::optional<RankError> error;
        if (rank.index() != frozen) error = failure_of(work);
        together.arrive_and_wait();
        if (rank.index() == frozen) {
          Machine::current().release_device();
          error = failure_of(work);
        }
        ASSERT_TRUE(error);
        EXPECT_EQ(error->rank(), 3);
        EXPECT_STREQ(error->what(), "rank 3 has lost its data");
        EXPECT_LT(device::Clock::now() - start, std::chrono::seconds(2));
      },
      {.options = {.timeout = std::chrono::seconds(60), .algorithm = GetParam().algorithm}});
}

INSTANTIATE_TEST_SUITE_P(CudaRing, Frozen, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep::comm::ring::cuda

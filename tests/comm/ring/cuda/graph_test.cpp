// Collectives that are captured into graphs: replays, with ranks that call them one by one among
// the others, and what is seen when a rank is lost in the middle of one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "framework/device/graph.h"
#include "tests/comm/ring/cuda/cuda_ranks.h"

namespace lockstep::comm::ring::cuda {
namespace {

using ::testing::HasSubstr;

std::vector<float> filled(std::size_t count, float value) {
  return std::vector<float>(count, value);
}

// A step of several collectives on the communication stream: what an update enqueues.
class Step {
 public:
  explicit Step(CudaRank& rank)
      : rank_(rank),
        small_(rank.context(), filled(10, 1)),
        large_(rank.context(), filled(2000, 1)),
        sums_(rank.context(), filled(10, 0)) {}

  void enqueue() {
    Stream& compute = rank_.context().compute_stream();
    Stream& stream = rank_.stream();
    CudaRingCommunicator& ring = rank_.communicator();
    stream.wait(compute.record());
    works_ = {ring.all_reduce(small_.range(), ReduceOp::avg, stream, 0),
              ring.broadcast(large_.range(), 0, stream, no_tag),
              ring.all_reduce(large_.range(), ReduceOp::avg, stream, 1),
              ring.reduce_scatter(sums_.range(), ReduceOp::max, stream, no_tag),
              ring.all_gather(sums_.range(), stream, no_tag),
              ring.barrier(stream)};
    works_.back().wait_on(compute);
  }
  void capture() {
    const std::array<Stream*, 1> streams{&rank_.stream()};
    graph_ = rank_.context().capture(streams, [this] { enqueue(); });
  }
  void launch() {
    graph_->launch();
    works_of_launch_.clear();
    for (const Work& work : works_) works_of_launch_.push_back(work.launched());
  }
  const std::vector<Work>& works() const { return graph_ ? works_of_launch_ : works_; }

  // Values that only a step in which all took part leaves as they are.
  void set(float value) {
    const std::vector<float> values = filled(2000, value);
    rank_.context().upload(small_.range().data, values.data(), 10 * sizeof(float));
    rank_.context().upload(large_.range().data, values.data(), 2000 * sizeof(float));
    rank_.context().upload(sums_.range().data, values.data(), 10 * sizeof(float));
  }
  void expect(float small, float large, float sums) const {
    EXPECT_EQ(small_.values(), filled(10, small));
    EXPECT_EQ(large_.values(), filled(2000, large));
    EXPECT_EQ(sums_.values(), filled(10, sums));
  }

 private:
  CudaRank& rank_;
  OnGpu<float> small_, large_, sums_;
  std::vector<Work> works_, works_of_launch_;
  std::unique_ptr<Graph> graph_;
};

class CapturedRing : public testing::TestWithParam<std::string> {
 protected:
  RankOptions with_timeout(std::chrono::milliseconds timeout) const {
    return {.options = {.timeout = timeout, .algorithm = GetParam()}};
  }
};

// Some ranks replay, some call, and in some turns all call: to each other they are the same.
TEST_P(CapturedRing, ReplaysAndCallsAreOneSequence) {
  run_cuda_ranks(
      3,
      [](CudaRank& rank) {
        EXPECT_TRUE(rank.communicator().capabilities().can_be_captured);
        Step called(rank), replayed(rank);
        const bool captures = rank.index() != 1;
        called.enqueue();
        if (captures) replayed.capture();
        for (int turn = 1; turn <= 5; ++turn) {
          const bool replays = captures && turn != 3;
          Step& step = replays ? replayed : called;
          step.set(static_cast<float>(turn * rank.index()));
          if (replays) {
            step.launch();
          } else {
            step.enqueue();
          }
          for (const Work& work : step.works()) work.wait();
          // Rank 0 has 0, the largest is rank 2's.
          step.expect(static_cast<float>(turn), 0, static_cast<float>(2 * turn));
        }
      },
      with_timeout(std::chrono::seconds(20)));
}

TEST_P(CapturedRing, ManyReplaysWithoutAWaitBetween) {
  run_cuda_ranks(
      4,
      [](CudaRank& rank) {
        const OnGpu<float> data(rank.context(), filled(300, 1));
        const std::array<Stream*, 1> streams{&rank.stream()};
        Work work;
        const auto reduce = [&] {
          work = rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag);
        };
        reduce();
        rank.context().compute_stream().wait(rank.stream().record());
        const auto graph = rank.context().capture(streams, reduce);
        Event last;
        for (int i = 0; i < 8; ++i) last = graph->launch();
        last.wait();
        work.launched().wait();
        EXPECT_EQ(data.values(), filled(300, 262144));  // 4 to the power of 9
      },
      with_timeout(std::chrono::seconds(20)));
}

// What lies between two marks happened between their times, in a launch as in calls.
TEST_P(CapturedRing, MarksTellWhenAStreamCameThere) {
  run_cuda_ranks(
      2,
      [](CudaRank& rank) {
        const OnGpu<float> data(rank.context(), filled(300, 1));
        CudaRingCommunicator& ring = rank.communicator();
        std::array<Work, 3> works;
        const auto enqueue = [&] {
          works[0] = ring.mark(rank.stream());
          works[1] = ring.all_reduce(data.range(), ReduceOp::max, rank.stream(), no_tag);
          works[2] = ring.mark(rank.stream());
        };
        auto last = device::Clock::time_point() + std::chrono::nanoseconds(1);
        const auto expect_order = [&](const Work& before, const Work& call, const Work& after) {
          after.wait();
          EXPECT_GE(before.times().start, last);
          EXPECT_EQ(before.times().start, before.times().end);
          EXPECT_GE(call.times().start, before.times().end);
          EXPECT_GE(after.times().start, call.times().end);
          last = after.times().end;
        };
        enqueue();
        expect_order(works[0], works[1], works[2]);
        const std::array<Stream*, 1> streams{&rank.stream()};
        rank.context().compute_stream().wait(rank.stream().record());
        const auto graph = rank.context().capture(streams, enqueue);
        for (int i = 0; i < 3; ++i) {
          graph->launch();
          expect_order(works[0].launched(), works[1].launched(), works[2].launched());
        }
      },
      with_timeout(std::chrono::seconds(20)));
}

// Each launch has times of its own, and those of another are not taken for them.
TEST_P(CapturedRing, TimesAreThoseOfTheLaunch) {
  run_cuda_ranks(
      2,
      [](CudaRank& rank) {
        Step step(rank);
        step.enqueue();
        step.works().back().wait();
        const Work called = step.works().front();
        const Work::Times first = called.times();
        step.capture();
        EXPECT_EQ(step.works().size(), 0u);
        Work::Times before = first;
        for (int turn = 0; turn < 3; ++turn) {
          step.launch();
          for (const Work& work : step.works()) {
            work.wait();
            EXPECT_TRUE(work.done());
            EXPECT_GE(work.times().start, before.end);
            EXPECT_GE(work.times().end, work.times().start);
            before = work.times();
          }
        }
        EXPECT_EQ(called.times().start, first.start);
      },
      with_timeout(std::chrono::seconds(20)));
}

std::string failure_of(const Work& work) {
  try {
    work.wait();
  } catch (const RankError& error) {
    return error.what();
  }
  return {};
}

// Whoever asks after the replay is told, and what was enqueued behind does not hang.
TEST_P(CapturedRing, ARankThatDoesNotReplayIsNamed) {
  run_cuda_ranks(
      4,
      [](CudaRank& rank) {
        Step step(rank);
        step.enqueue();
        step.works().back().wait();
        step.capture();
        step.launch();
        if (rank.index() == 2) {
          step.works().back().wait();
          return;
        }
        const auto start = device::Clock::now();
        step.launch();
        const Work first = step.works().front();
        step.launch();
        EXPECT_THAT(failure_of(first), HasSubstr("rank 2 did not arrive at all_reduce"));
        EXPECT_EQ(failure_of(step.works().back()), failure_of(first));
        EXPECT_LT(device::Clock::now() - start, std::chrono::seconds(4));
        EXPECT_THROW(step.capture(), RankError);
      },
      with_timeout(std::chrono::seconds(2)));
}

// The thread that watches knows of replays too: an abort of the group ends their kernels long
// before the deadline, although no call was made since.
TEST_P(CapturedRing, AnAbortEndsAReplay) {
  run_cuda_ranks(
      3,
      [](CudaRank& rank) {
        Step step(rank);
        step.enqueue();
        step.works().back().wait();
        step.capture();
        step.launch();
        step.works().back().wait();
        const auto start = device::Clock::now();
        if (rank.index() == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          rank.communicator().abort(0, "rank 0 has lost its data");
          return;
        }
        step.launch();
        EXPECT_EQ(failure_of(step.works().back()), "rank 0 has lost its data");
        EXPECT_LT(device::Clock::now() - start, std::chrono::seconds(2));
      },
      with_timeout(std::chrono::seconds(60)));
}

// The graph waits for its launches when it goes, so nothing is under way when the communicator
// does.
TEST_P(CapturedRing, ReplaysThatNobodyWaitsForEndWell) {
  run_cuda_ranks(
      2,
      [](CudaRank& rank) {
        Step step(rank);
        step.enqueue();
        step.capture();
        for (int i = 0; i < 3; ++i) step.launch();
      },
      with_timeout(std::chrono::seconds(20)));
}

INSTANTIATE_TEST_SUITE_P(Ring, CapturedRing, testing::Values("ring", "one_shot", "two_shot"),
                         [](const auto& test) { return test.param; });

TEST(CapturedRingOfOne, ReplaysCopies) {
  run_cuda_ranks(1, [](CudaRank& rank) {
    const OnGpu<float> from(rank.context(), filled(100, 7)), to(rank.context(), filled(100, 0));
    const std::array<Stream*, 1> streams{&rank.stream()};
    Work work;
    const auto graph = rank.context().capture(streams, [&] {
      work = rank.communicator().all_to_all(from.range(), to.range(), rank.stream(), no_tag);
    });
    EXPECT_EQ(to.values(), filled(100, 0));
    graph->launch();
    work.launched().wait();
    EXPECT_EQ(to.values(), filled(100, 7));
  });
}

// No kernel of the ring runs there, so nobody looks at the clock.
TEST(CudaRingOfOne, HasNoTimes) {
  run_cuda_ranks(1, [](CudaRank& rank) {
    const OnGpu<float> data(rank.context(), filled(100, 7));
    const Work work =
        rank.communicator().all_reduce(data.range(), ReduceOp::sum, rank.stream(), no_tag);
    work.wait();
    EXPECT_EQ(work.times().start, device::Clock::time_point());
    EXPECT_EQ(work.times().end, device::Clock::time_point());
  });
}

}  // namespace
}  // namespace lockstep::comm::ring::cuda

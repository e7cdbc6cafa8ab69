#include "train/timeline/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "framework/device/cpu/cpu_context.h"
#include "tests/train/parallel/toy_training.h"
#include "train/timeline/epoch_times.h"
#include "train/timeline/trace_file.h"

namespace lockstep::train {
namespace {

using Kind = Timeline::Event::Kind;
using std::chrono::milliseconds;

void busy(milliseconds duration) {
  const auto end = device::Clock::now() + duration;
  while (device::Clock::now() < end) {
  }
}

// A collective that ran when it is said to have.
comm::Work finished(device::Clock::time_point start, device::Clock::time_point end) {
  class Finished final : public comm::Work::State {
   public:
    explicit Finished(comm::Work::Times times) : times_(times) {}
    Event event() const override { return {}; }
    void throw_if_failed() const override {}
    comm::Work::Times times() const override { return times_; }

   private:
    comm::Work::Times times_;
  };
  return comm::Work(std::make_shared<Finished>(comm::Work::Times{start, end}));
}

// A bucket travels from the middle of the backward pass to the middle of a wait.
TEST(Timeline, PartsAreTrueIntersections) {
  const auto context = device::make_cpu_context(1);
  Timeline timeline(*context, {});
  timeline.begin_step(1);
  {
    const Timeline::Span span(timeline, Activity::data_wait);
    busy(milliseconds(3));
  }
  device::Clock::time_point start, end;
  {
    const Timeline::Span span(timeline, Activity::backward);
    busy(milliseconds(5));
    start = device::Clock::now();
    busy(milliseconds(5));
  }
  {
    const Timeline::Span span(timeline, Activity::bucket_wait, 0);
    busy(milliseconds(4));
    end = device::Clock::now();
    busy(milliseconds(2));
  }
  const std::vector<comm::Work> works{finished(start, end)};
  const StepParts parts = timeline.end_step({works, {}, {}});
  EXPECT_GE(parts.data_wait, 0.003);
  EXPECT_GE(parts.compute, 0.010);
  EXPECT_GE(parts.communication, 0.009);
  EXPECT_NEAR(parts.hidden(), parts.communication - parts.exposed, 1e-12);
  EXPECT_GE(parts.hidden(), 0.005);
  EXPECT_GE(parts.exposed, 0.004);
  EXPECT_GE(parts.wake_up, 0.002);
  EXPECT_NEAR(parts.compute + parts.data_wait + parts.exposed + parts.wake_up + parts.summary_wait,
              parts.step, 0.05 * parts.step);
  EXPECT_TRUE(timeline.events().empty());
  EXPECT_EQ(context->recorder(), nullptr);
}

// Two ranks, the second of which is always two milliseconds late.
TEST(EpochTimes, TellWhoWasWaitedFor) {
  for (const int steps : {3, 3000}) {  // more than are kept between two exchanges
    run_ranks(2, [&](Rank rank) {
      EpochRecorder recorder(rank.context, rank.communicator);
      const device::Clock::time_point zero;
      for (int step = 0; step < steps; ++step) {
        const auto at = zero + std::chrono::seconds(step);
        const milliseconds late(rank.communicator.rank() == 1 ? 2 : 0);
        const std::vector<comm::Work> works{
            finished(at + late, at + milliseconds(3)),
            finished(at + milliseconds(3) + late, at + milliseconds(6))};
        recorder.add({.step = 1, .compute = 0.5 + rank.communicator.rank()}, works,
                     rank.context.compute_stream());
      }
      const EpochTimes times = recorder.take(rank.context.compute_stream());
      EXPECT_EQ(times.collectives, 2 * steps);
      EXPECT_EQ(times.slowest(), 1);
      EXPECT_EQ(times.ranks[1].last, 2 * steps);
      EXPECT_NEAR(times.ranks[1].waited_for, 2 * steps * 0.002, 1e-6 * steps);
      EXPECT_EQ(times.ranks[0].waited_for, 0);
      EXPECT_NEAR(times.waited_share(1), 0.004, 1e-6);
      EXPECT_EQ(times.waited_share(0), 0);
      EXPECT_NEAR(times.mean().compute, steps, 1e-9 * steps);
      EXPECT_EQ(recorder.take(rank.context.compute_stream()).collectives, 0);
    });
  }
}

// The second rank is held up between its steps, and its clock is ahead: what the first one waited
// is no more than its own steps took.
TEST(EpochTimes, NobodyIsWaitedForLongerThanTheOthersStepsLast) {
  run_ranks(2, [&](Rank rank) {
    EpochRecorder recorder(rank.context, rank.communicator);
    const bool is_late = rank.communicator.rank() == 1;
    const device::Clock::time_point zero;
    for (int step = 0; step < 5; ++step) {
      const auto begin = zero + milliseconds(10 * step), end = begin + milliseconds(10);
      // The second overlaps with the first.
      const std::vector<comm::Work> works{
          finished(begin + milliseconds(is_late ? 50 : 1), end + milliseconds(is_late ? 50 : 0)),
          finished(begin + milliseconds(is_late ? 55 : 2), end + milliseconds(is_late ? 50 : 0))};
      recorder.add({.step = is_late ? 0.001 : 0.010}, works, rank.context.compute_stream());
    }
    const EpochTimes times = recorder.take(rank.context.compute_stream());
    EXPECT_EQ(times.ranks[1].last, 10);
    EXPECT_NEAR(times.ranks[1].waited_for, 5 * 0.009, 1e-9);
    EXPECT_NEAR(times.waited_share(1), 0.9, 1e-9);
  });
}

// What a traced step of a real replica leaves, by rank.
std::vector<nlohmann::json> traced_step(int size, bool overlap) {
  ToyProblem problem;
  problem.replica.buckets = {.bucket_bytes = 256, .first_bucket_bytes = 64};
  problem.replica.overlap = overlap;
  problem.replica.trace = {2, 3};
  problem.epochs = 1;
  problem.samples = 5 * problem.batch_size;
  std::vector<nlohmann::json> traces(static_cast<std::size_t>(size));
  problem.after_update = [&](Rank rank, Replica& replica, std::int64_t step) {
    if (step < 5) return;
    const auto r = static_cast<std::size_t>(rank.communicator.rank());
    traces[r] = nlohmann::json::parse(
        "[" +
        trace_events(replica.timeline(), rank.communicator.rank(), replica.averager().plan(), {}) +
        "]");
  };
  run_ranks(size, [&](Rank rank) { train_toy(rank, problem); });
  return traces;
}

std::vector<nlohmann::json> named(const nlohmann::json& trace, const std::string& category,
                                  int step) {
  std::vector<nlohmann::json> found;
  for (const auto& event : trace)
    if (event.value("cat", "") == category && event["args"]["step"] == step) found.push_back(event);
  return found;
}

TEST(Timeline, TracesLayersAndBucketsOfTheStepsThatWereAskedFor) {
  for (const bool overlap : {true, false}) {
    const auto traces = traced_step(2, overlap);
    for (const auto& trace : traces) {
      std::set<int> steps;
      for (const auto& event : trace)
        if (event["ph"] != "M") steps.insert(event["args"]["step"].get<int>());
      EXPECT_EQ(steps, (std::set<int>{2, 3}));
      std::set<std::string> layers;
      for (const auto& event : named(trace, "backward layer", 2)) layers.insert(event["name"]);
      for (const char* layer : {"output", "hidden.0", "hidden.1", "cross_entropy"})
        EXPECT_TRUE(layers.count(layer)) << layer;
      const auto travels = named(trace, "communication", 2);
      ASSERT_GT(travels.size(), 3u);
      std::set<std::string> marks;
      for (const auto& event : named(trace, "bucket", 2)) marks.insert(event["name"]);
      EXPECT_EQ(marks.size(), 2 * travels.size());  // ready and launched
      for (const auto& event : travels) {
        EXPECT_EQ(event["tid"], 1);
        EXPECT_GT(event["args"]["bytes"].get<int>(), 0);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::train

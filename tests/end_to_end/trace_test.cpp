// The timeline of a run: the trace that it writes, and the parts of its steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "tests/end_to_end/sandbox.h"

namespace lockstep::tests {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// PERF-1: eight layers, wide enough that a step takes tens of milliseconds.
const MadeData wide_data{.training_samples = 5120, .test_samples = 64, .features = 256};
Arguments eight_layers(const Arguments& more) {
  Arguments settings{"model.hidden=[1024, 1024, 1024, 1024, 1024, 1024, 1024]",
                     "train.batch_size=256",
                     "train.steps=20",
                     "train.evaluate_every=0",
                     "checkpoint.every_epochs=null",
                     "data_parallel.bucket_mib=4"};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

Json trace_of(const std::string& run_folder) {
  std::ifstream file(run_folder + "/trace.json");
  return Json::parse(file)["traceEvents"];
}

double begin_of(const Json& event) {
  return event["ts"];
}
double end_of(const Json& event) {
  return begin_of(event) + event["dur"].get<double>();
}

// The complete events of one rank and step with this category and, unless empty, name.
std::vector<Json> events_of(const Json& trace, int rank, int step, const std::string& category,
                            const std::string& name = "") {
  std::vector<Json> found;
  for (const auto& event : trace)
    if (event["ph"] == "X" && event["pid"] == rank && event["args"]["step"] == step &&
        event["cat"] == category && (name.empty() || event["name"] == name))
      found.push_back(event);
  return found;
}

// How many buckets of a step became ready at `time` or later.
int ready_after(const Json& trace, int rank, int step, double time) {
  int count = 0;
  for (const auto& event : trace)
    count += event["ph"] == "i" && event["pid"] == rank && event["args"]["step"] == step &&
             event["name"].get<std::string>().ends_with("ready") && begin_of(event) >= time;
  return count;
}

// What every event of the Trace Event Format must have, and that a track's events nest.
void check_format(const Json& trace, int ranks) {
  std::map<std::pair<int, int>, std::string> threads;
  std::map<std::pair<int, int>, std::vector<Json>> tracks;
  for (const auto& event : trace) {
    const std::string phase = event["ph"];
    const std::pair track{event["pid"].get<int>(), event["tid"].get<int>()};
    ASSERT_GE(track.first, 0);
    ASSERT_LT(track.first, ranks);
    ASSERT_FALSE(event["name"].get<std::string>().empty());
    if (phase == "M") {
      if (event["name"] == "thread_name") threads[track] = event["args"]["name"];
      continue;
    }
    ASSERT_GE(event["ts"].get<double>(), 0);
    if (phase == "X") {
      ASSERT_GE(event["dur"].get<double>(), 0);
      tracks[track].push_back(event);
    } else {
      ASSERT_EQ(phase, "i");
      ASSERT_EQ(event["s"], "t");
    }
  }
  ASSERT_EQ(tracks.size(), static_cast<std::size_t>(2 * ranks));
  for (auto& [track, events] : tracks) {
    EXPECT_EQ(threads.at(track), track.second == 0 ? "compute" : "communication");
    std::sort(events.begin(), events.end(), [](const Json& a, const Json& b) {
      return begin_of(a) != begin_of(b) ? begin_of(a) < begin_of(b) : end_of(a) > end_of(b);
    });
    std::vector<double> open;
    for (const auto& event : events) {
      while (!open.empty() && open.back() <= begin_of(event)) open.pop_back();
      if (!open.empty()) {
        ASSERT_LE(end_of(event), open.back() + 0.01) << event;
      }
      open.push_back(end_of(event));
    }
  }
}

// From the trace itself: what the thread did inside a step, against the length of the step.
void check_activities_fill_the_steps(const Json& trace, int ranks, int steps) {
  for (int rank = 0; rank < ranks; ++rank) {
    double activities = 0, whole = 0;
    for (int step = 1; step <= steps; ++step) {
      const Json bounds = events_of(trace, rank, step, "step").at(0);
      whole += bounds["dur"].get<double>();
      for (const auto& event : events_of(trace, rank, step, "activity"))
        if (begin_of(event) >= begin_of(bounds) && end_of(event) <= end_of(bounds))
          activities += event["dur"].get<double>();
    }
    EXPECT_GT(activities, 0.95 * whole) << "rank " << rank;
    EXPECT_LE(activities, 1.0001 * whole) << "rank " << rank;
  }
}

void check_parts(const std::vector<Json>& steps) {
  ASSERT_EQ(steps.size(), 20u);
  double parts = 0, whole = 0;
  for (const auto& step : steps) {
    for (const auto& part : step["parts"]) parts += part.get<double>();
    whole += step["seconds"].get<double>();
    EXPECT_NEAR(step["hidden_seconds"].get<double>() + step["exposed_seconds"].get<double>(),
                step["communication_seconds"].get<double>(), 1e-9);
  }
  EXPECT_NEAR(parts, whole, 0.05 * whole);
}

TEST(Trace, CommunicationRunsBesideTheBackwardPass) {
  const Sandbox sandbox(wide_data);
  const auto run = sandbox.run(sandbox.train(4, eight_layers({}), {"--trace", "1"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("trace of updates 1 to 20"));
  const std::string folder = run_folder(sandbox, run);
  const Json trace = trace_of(folder);
  check_format(trace, 4);
  check_activities_fill_the_steps(trace, 4, 20);
  const std::size_t buckets = metrics(folder, "start").at(0)["buckets"];
  EXPECT_GE(buckets, 8u);
  int early = 0;
  for (int rank = 0; rank < 4; ++rank)
    for (int step = 1; step <= 20; ++step) {
      const auto first_bucket = events_of(trace, rank, step, "communication", "bucket 0").at(0);
      const auto first_layer = events_of(trace, rank, step, "backward layer", "hidden.0").at(0);
      early += begin_of(first_bucket) < begin_of(first_layer);
      EXPECT_LE(ready_after(trace, rank, step, end_of(first_layer)), 1);
      EXPECT_EQ(first_bucket["tid"], 1);
      EXPECT_EQ(first_layer["tid"], 0);
      EXPECT_EQ(events_of(trace, rank, step, "communication").size(),
                buckets + 1);  // the summary
    }
  // Where ranks outnumber cores the communication thread now and then gets none in time.
  EXPECT_GT(early, 60) << "of 80";
  check_parts(metrics(folder, "step"));
  const auto epoch = metrics(folder, "epoch").at(0);
  EXPECT_EQ(epoch["collectives"], 20 * buckets);
  EXPECT_GT(epoch["overlap"].get<double>(), 0);
  ASSERT_EQ(epoch["ranks"].size(), 4u);
  int last = 0;
  for (const auto& rank : epoch["ranks"]) last += rank["last"].get<int>();
  EXPECT_EQ(last, static_cast<int>(20 * buckets));
}

TEST(Trace, WithoutOverlapAllCommunicationIsExposed) {
  const Sandbox sandbox(wide_data);
  const auto run =
      sandbox.run(sandbox.train(4, eight_layers({"data_parallel.overlap=false", "run.trace=1"})));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const std::string folder = run_folder(sandbox, run);
  const Json trace = trace_of(folder);
  check_activities_fill_the_steps(trace, 4, 20);
  const auto steps = metrics(folder, "step");
  check_parts(steps);
  for (const auto& step : steps) {
    EXPECT_GT(step["communication_seconds"].get<double>(), 0);
    EXPECT_NEAR(step["exposed_seconds"].get<double>(), step["communication_seconds"].get<double>(),
                1e-9);
  }
  EXPECT_NEAR(metrics(folder, "epoch").at(0)["overlap"].get<double>(), 0, 1e-9);
  // Each bucket travels after the last layer's backward pass.
  for (int step = 1; step <= 20; ++step)
    EXPECT_GE(begin_of(events_of(trace, 2, step, "communication", "bucket 0").at(0)),
              end_of(events_of(trace, 2, step, "backward layer", "hidden.0").at(0)));
}

TEST(Trace, NamesTheRankThatTheOthersWaitedFor) {
  const Sandbox sandbox;
  const auto run = sandbox.run(sandbox.train(3, {"train.epochs=1"}),
                               {{"TRAIN_FAULT", "rank=1,at=forward,do=stall:0.01"}});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("most waited for: rank 1"));
  const auto epoch = metrics(run_folder(sandbox, run), "epoch").at(0);
  EXPECT_GT(epoch["ranks"][1]["waited_for"].get<double>(), 16 * 0.008);
  EXPECT_LT(epoch["ranks"][0]["waited_for"].get<double>(), 16 * 0.008);
}

TEST(Trace, HoldsOnlyTheStepsThatWereAskedFor) {
  const Sandbox sandbox;
  const auto run =
      sandbox.run(sandbox.train(2, {"train.epochs=1", "run.trace=5", "run.trace_steps=2"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  std::set<int> steps;
  for (const auto& event : trace_of(run_folder(sandbox, run)))
    if (event["ph"] != "M") steps.insert(event["args"]["step"].get<int>());
  EXPECT_EQ(steps, (std::set<int>{5, 6}));

  const auto late = sandbox.run(sandbox.train(2, {"train.epochs=1", "run.trace=50"}));
  EXPECT_EQ(late.exit_code, 0) << late.output;
  EXPECT_THAT(late.output, HasSubstr("no trace: the run ended after update 16"));
}

}  // namespace
}  // namespace lockstep::tests

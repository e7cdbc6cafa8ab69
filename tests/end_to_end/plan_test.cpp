// `train plan`, and that training follows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "comm/backend.h"
#include "tests/end_to_end/emulated_gpus.h"
#include "train/tuning_file.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Arguments plan(const Arguments& settings, const Arguments& more = {}) {
  Arguments command{train_program, "plan", "--config", "config.yaml"};
  for (const auto& setting : settings) {
    command.push_back("--set");
    command.push_back(setting);
  }
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

TEST(Plan, ShowsBucketsWithTheirTensors) {
  const Sandbox sandbox;
  const auto end = sandbox.run(plan({"data_parallel.bucket_mib=0.0005"}, {"--gpus", "4"}));
  ASSERT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output,
              AllOf(HasSubstr("5 buckets"), HasSubstr("4 workers"), HasSubstr("backend ring"),
                    HasSubstr("output.weight"), HasSubstr("hidden.0.weight["), HasSubstr("_shot")));
}

TEST(Plan, NeedsWhatARunNeeds) {
  const Sandbox sandbox;
  EXPECT_EQ(sandbox.run(plan({"data.file=absent.h5"})).exit_code, 3);
  EXPECT_EQ(sandbox.run(plan({"optimizer.lr=-1"})).exit_code, 2);
  EXPECT_EQ(sandbox.run(plan({}, {"--gpus", "0"})).exit_code, 2);
  EXPECT_EQ(sandbox.run(plan({"comm.backend=carrier_pigeon"})).exit_code, 2);
}

TEST(Plan, FollowsATuningFileAsARunDoes) {
  const Sandbox sandbox;
  train::TuningFile tuning{train::this_machine(), {}};
  tuning.all_reduce["processes"][3] = "ring";
  train::write_tuning_file(sandbox.path("tuning.yaml"), tuning);
  const Arguments settings{"comm.tuning_file=tuning.yaml"};
  const auto end = sandbox.run(plan(settings, {"--json", "--gpus", "3"}));
  ASSERT_EQ(end.exit_code, 0) << end.output;
  EXPECT_EQ(Json::parse(end.output)["buckets"][0]["algorithm"], "ring");
  EXPECT_EQ(sandbox.run(plan(settings, {"--gpus", "2"})).exit_code, 2);  // measured for 3 only
  EXPECT_EQ(sandbox.run(plan({"comm.tuning_file=absent.yaml"})).exit_code, 2);
}

// The size of the buckets follows from the backend's costs, which are those that its ranks have.
TEST(Plan, ChoosesSizesForEveryBackendAsARunDoes) {
  const Sandbox sandbox;
  const Arguments settings{"data_parallel.bucket_mib=auto", "model.hidden=[360, 360]",
                           "train.steps=1", "train.evaluate_every=0",
                           "checkpoint.every_epochs=null"};
  for (const char* const backend : {"ring", "gloo"}) {
    if (!comm::find_backend(backend).built_in) continue;
    const auto printed =
        sandbox.run(plan(settings, {"--json", "--gpus", "2", "--backend", backend}));
    ASSERT_EQ(printed.exit_code, 0) << printed.output;
    const Json document = Json::parse(printed.output);
    EXPECT_EQ(document["device"], "cpu");
    EXPECT_EQ(document["cost"]["source"], "rounded from benchmarks/README.md");
    const auto run = sandbox.run(sandbox.train(2, settings, {"--backend", backend}));
    EXPECT_THAT(run.output,
                HasSubstr("buckets: " + std::to_string(document["buckets"].size()) + " bucket"));
  }
}

TEST(Plan, ForGpusGoesByTheLinksBetweenThem) {
  const Sandbox sandbox(few_rows);
  const Arguments settings{"data_parallel.bucket_mib=auto", "model.hidden=[360, 360]",
                           "train.steps=1", "train.evaluate_every=0",
                           "checkpoint.every_epochs=null"};
  std::vector<std::size_t> buckets;
  for (const bool pcie : {false, true}) {
    Environment environment = seed(1);
    if (pcie) environment["LOCKSTEP_EMULATION_PCIE"] = "1";
    Arguments command = plan(settings, {"--gpus", "2", "--device", "cuda"});
    command.front() = LOCKSTEP_TRAIN_EMULATED;
    const auto table = sandbox.run(command, environment);
    ASSERT_EQ(table.exit_code, 0) << table.output;
    EXPECT_THAT(table.output, AllOf(HasSubstr("2 workers on cuda"),
                                    HasSubstr(pcie ? "assumed for PCIe 4" : "assumed for NVLink 3"),
                                    HasSubstr("not measured")));
    command.emplace_back("--json");
    const Json document = Json::parse(sandbox.run(command, environment).output);
    buckets.push_back(document["buckets"].size());
    const auto run = sandbox.run(on_gpus(sandbox, 2, settings), environment);
    EXPECT_THAT(run.output, HasSubstr("buckets: " + std::to_string(buckets.back()) + " bucket"));
    std::set<std::string> algorithms;
    for (const auto& bucket : document["buckets"]) algorithms.insert(bucket["algorithm"]);
    EXPECT_THAT(run.output, HasSubstr("all-reduced by " + *algorithms.begin()));
  }
  EXPECT_GT(buckets[1], buckets[0]);
}

TEST(Plan, RefusesWhatARunOnGpusWould) {
  const Sandbox sandbox(few_rows);
  const auto gpus = [&](const Arguments& settings) {
    Arguments command = plan(settings, {"--gpus", "2", "--device", "cuda"});
    command.front() = LOCKSTEP_TRAIN_EMULATED;
    return sandbox.run(command);
  };
  EXPECT_EQ(gpus({}).exit_code, 0);
  const auto tuned = gpus({"comm.tuning_file=tuning.yaml"});
  EXPECT_EQ(tuned.exit_code, 2);
  EXPECT_THAT(tuned.output, HasSubstr("comm.tuning_file: serves workers on CPUs"));
  EXPECT_EQ(gpus({"comm.algorithm=halving_doubling"}).exit_code, 2);
  // Nor what one here would.
  const auto graph = sandbox.run(plan({"compute.graph=on"}, {"--device", "cpu"}));
  EXPECT_EQ(graph.exit_code, 2);
  EXPECT_THAT(graph.output, HasSubstr("compute.graph: found on"));
}

// PERF-2: 1,000 tiny parameters, and one of 8 MB in the first layer, whose gradient comes last.
TEST(Plan, PacksTinyParametersAndCutsALargeOne) {
  const Sandbox sandbox({.training_samples = 640, .test_samples = 8, .features = 1024});
  std::string hidden = "model.hidden=[2048";
  for (int layer = 0; layer < 499; ++layer) hidden += ", 4";
  const Arguments settings{hidden + "]", "data_parallel.bucket_mib=1", "train.steps=10",
                           "train.evaluate_every=0", "checkpoint.every_epochs=null"};
  const auto printed = sandbox.run(plan(settings, {"--json", "--gpus", "2"}));
  ASSERT_EQ(printed.exit_code, 0) << printed.output;
  const Json buckets = Json::parse(printed.output)["buckets"];
  std::size_t total = 0, large = 0;
  std::set<std::string> tensors;
  for (const auto& bucket : buckets) {
    const std::size_t bytes = bucket["bytes"];
    EXPECT_LE(bytes, 1u << 20);
    total += bytes;
    bool has_large = false;
    for (const auto& tensor : bucket["tensors"]) {
      tensors.insert(tensor["name"]);
      has_large |= tensor["name"] == "hidden.0.weight";
    }
    large += has_large;
    if (has_large) {
      EXPECT_EQ(bucket["tensors"].size(), 1u);
    }
  }
  EXPECT_EQ(tensors.size(), 1002u);
  EXPECT_GE(large, 8u);
  EXPECT_LE(buckets.size(), total / (1u << 20) + 2);
  EXPECT_EQ(buckets[0]["tensors"][0]["name"].get<std::string>().substr(0, 6), "output");
  EXPECT_EQ(buckets.back()["tensors"][0]["name"], "hidden.0.weight");

  // Steps 1, 2 and 10 reduce every bucket once.
  const auto run = sandbox.run(sandbox.train(2, settings, {"--trace", "1"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("buckets: " + std::to_string(buckets.size()) + " buckets"));
  const auto steps = metrics(run_folder(sandbox, run), "step");
  ASSERT_EQ(steps.size(), 10u);
  for (const std::size_t step : {0u, 1u, 9u}) EXPECT_EQ(steps[step]["reduced_bytes"], total);
  EXPECT_EQ(metrics(run_folder(sandbox, run), "epoch")[0]["collectives"], 10 * buckets.size());
}

}  // namespace
}  // namespace lockstep::tests

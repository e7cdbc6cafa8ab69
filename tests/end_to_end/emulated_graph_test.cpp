// Steps on emulated GPUs that are launched as CUDA graphs: the same bits as call by call, and what
// a user sees when something goes wrong in the middle of a launched one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "tests/end_to_end/emulated_gpus.h"
#include "train/checkpoint.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* launched = "are launched as a CUDA graph from here on";

// Epochs of four batches of 16 rows, of which the last is an uneven one of 11, and no comparison of
// the replicas in between, so that the host is a step ahead of the GPU nearly all the time.
constexpr MadeData uneven_rows{.training_samples = 59, .test_samples = 23};
Arguments settings_of(const std::string& graph, Arguments more, int epochs = 3) {
  for (const char* const setting :
       {"consistency.every=0", "checkpoint.every_epochs=null", "train.evaluate_every=0"})
    more.emplace_back(setting);
  more.push_back(fmt::format("train.epochs={}", epochs));
  more.push_back("compute.graph=" + graph);
  return more;
}

struct Variant {
  std::string name;
  int workers = 2;
  Arguments settings = {};
  int seed = 1;
  int epochs = 3;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant) {
  return out << variant.name;
}

const std::string small_buckets = "data_parallel.bucket_mib=0.0006";
const Arguments all_that_changes{"model.dropout=0.3",    "optimizer.name=adamw",
                                 "optimizer.lr=0.01",    "optimizer.weight_decay=0.1",
                                 "schedule.name=cosine", "schedule.warmup_steps=3",
                                 small_buckets};

class EmulatedGraph : public ::testing::TestWithParam<Variant> {};

INSTANTIATE_TEST_SUITE_P(
    Variants, EmulatedGraph,
    ::testing::Values(
        Variant{"OneGpu", 1, all_that_changes, 2, 5}, Variant{"TwoGpus", 2, all_that_changes, 3, 5},
        Variant{"EightGpus",
                8,
                {"model.dropout=0.3", "optimizer.name=adam", "schedule.name=cosine"},
                4,
                5},
        Variant{"ClippedByNormInARing",
                2,
                {"optimizer.clip_norm=0.1", "comm.algorithm=ring", "train.dtype=float64"},
                6},
        Variant{"AccumulationOfBatchNormWithoutOverlap",
                2,
                {"train.accumulate=2", "optimizer.momentum=0.9", "optimizer.clip_value=0.01",
                 "model.batch_norm=true", "data_parallel.overlap=false"},
                5},
        Variant{"AveragedBuffersByBf16",
                2,
                {"data_parallel.hook=bf16", "model.batch_norm=true",
                 "data_parallel.buffers=average", small_buckets},
                3},
        Variant{"Fp16WithALossScale",
                3,
                {"data_parallel.hook=fp16", "train.loss_scale=dynamic", "optimizer.momentum=0.9",
                 small_buckets},
                4},
        Variant{"WorkingCopiesOfAdamW",
                2,
                {"compute.products=bfloat16", "optimizer.name=adamw", "train.accumulate=2",
                 small_buckets},
                3},
        Variant{"ShardedAdam",
                3,
                {"data_parallel.sharding=optimizer", "optimizer.name=adam", small_buckets},
                2},
        Variant{"ShardedWithoutOverlap",
                2,
                {"data_parallel.sharding=optimizer", "data_parallel.overlap=false",
                 "optimizer.clip_norm=0.1", "train.on_nonfinite=skip", small_buckets},
                5}),
    [](const auto& variant) { return variant.param.name; });

TEST_P(EmulatedGraph, GivesTheBitsOfCalls) {
  const Variant& variant = GetParam();
  const Sandbox sandbox(uneven_rows);
  const auto run = [&](const char* graph) {
    const auto end = sandbox.run(
        on_gpus(sandbox, variant.workers, settings_of(graph, variant.settings, variant.epochs)),
        seed(variant.seed));
    EXPECT_EQ(end.exit_code, 0) << end.output;
    return end;
  };
  const auto by_calls = run("off");
  const auto by_graph = run("auto");
  EXPECT_THAT(by_calls.output, AllOf(HasSubstr("compute.graph is off"), Not(HasSubstr(launched))));
  EXPECT_THAT(by_graph.output, HasSubstr(std::string("steps of 16 rows ") + launched));
  EXPECT_EQ(final_weights(by_graph), final_weights(by_calls));
  EXPECT_EQ(losses_of(sandbox, by_graph), losses_of(sandbox, by_calls));
  const auto steps = metrics(run_folder(sandbox, by_graph), "step");
  ASSERT_EQ(steps.size(), 4u * static_cast<std::size_t>(variant.epochs));
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i]["step"], i + 1);
}

// Checkpoints, evaluations, comparisons and traces come behind the update that they belong to.
TEST(EmulatedGraphs, AreReadBeforeWhatLooksAtTheReplica) {
  const Sandbox sandbox(uneven_rows);
  const Arguments settings{"train.epochs=3",      "consistency.every=3", "checkpoint.every_steps=5",
                           "optimizer.name=adam", "run.trace=7",         "run.trace_steps=3"};
  std::vector<std::string> weights;
  for (const char* const graph : {"compute.graph=off", "compute.graph=on"}) {
    Arguments all = settings;
    all.emplace_back(graph);
    const auto end = sandbox.run(on_gpus(sandbox, 2, all), seed(3));
    ASSERT_EQ(end.exit_code, 0) << end.output;
    EXPECT_THAT(end.output, HasSubstr("trace of updates 7 to 9"));
    const std::string folder = run_folder(sandbox, end);
    EXPECT_EQ(metrics(folder, "weights").size(), 8u);  // each third, and where one was saved
    std::string digests = final_weights(end);
    for (const auto& record : metrics(folder, "weights"))
      digests += " " + record["digest"].get<std::string>();
    weights.push_back(digests);
  }
  EXPECT_EQ(weights[0], weights[1]);
}

// A rank whose steps cannot be captured makes the same collectives in the same order.
TEST(EmulatedGraphs, MixWithARankThatCallsItsSteps) {
  const Sandbox sandbox(uneven_rows);
  const Arguments settings = settings_of("auto", {small_buckets, "optimizer.momentum=0.9"});
  const auto whole = sandbox.run(on_gpus(sandbox, 3, settings), seed(3));
  Environment environment = seed(3);
  environment["TRAIN_FAULT"] = "rank=1,step=1000,at=gradient,do=nan";  // never strikes
  const auto end = sandbox.run(on_gpus(sandbox, 3, settings), environment);
  ASSERT_EQ(end.exit_code, 0) << end.output;
  const std::string folder = run_folder(sandbox, end);
  EXPECT_THAT(rank_log(folder, 0), HasSubstr(launched));
  EXPECT_THAT(rank_log(folder, 1), AllOf(HasSubstr("call by call, not as a CUDA graph: a fault is"),
                                         Not(HasSubstr(launched))));
  EXPECT_EQ(final_weights(end), final_weights(whole));
}

// DATA-6: found when the next step is on its way already, which changes nothing.
TEST(EmulatedGraphs, ARowThatIsNotFiniteIsNamed) {
  const Sandbox sandbox({.training_samples = 131, .test_samples = 23});
  sandbox.put_nan(100, 5);  // in the seventh of eight whole batches
  for (const char* const clip : {"optimizer.clip_norm=null", "optimizer.clip_norm=1"}) {
    const auto end =
        sandbox.run(on_gpus(sandbox, 3, settings_of("on", {"data.shuffle=false", clip})), seed(3));
    EXPECT_EQ(end.exit_code, 7) << end.output;
    EXPECT_THAT(rank_log(run_folder(sandbox, end), 0), HasSubstr(launched));
    EXPECT_THAT(end.last_line, AllOf(HasSubstr("the gradients of step 7 are not finite"),
                                     HasSubstr("sample 100 of 'data.h5'"), HasSubstr("element 5"),
                                     HasSubstr("rank 0")));
    EXPECT_EQ(metrics(run_folder(sandbox, end), "step").size(), 6u);
  }
}

// Of which each waits for a GPU to be idle when it makes its graph, and so for the others' work.
TEST(EmulatedGraphs, AreMadeByWorkersThatShareAGpuTogether) {
  const Sandbox sandbox(uneven_rows);
  Environment environment = seed(3);
  environment["LOCKSTEP_EMULATION_DEVICES"] = "2";
  std::vector<std::string> weights;
  for (const char* const graph : {"auto", "on"}) {
    const auto end = sandbox.run(
        on_gpus(sandbox, 4, settings_of(graph, {small_buckets, "optimizer.momentum=0.9"}),
                {"--oversubscribe"}),
        environment);
    ASSERT_EQ(end.exit_code, 0) << end.output;
    weights.push_back(final_weights(end));
    const std::string log = rank_log(run_folder(sandbox, end), 3);
    EXPECT_EQ(log.find(launched) != log.npos, std::string(graph) == "on") << log;
    EXPECT_EQ(log.find("workers share a GPU") != log.npos, std::string(graph) == "auto") << log;
  }
  EXPECT_EQ(weights[0], weights[1]);
}

// One that does not come to make its graph is named.
TEST(EmulatedGraphs, ThatAreMadeTogetherWaitForNobodyForEver) {
  const Sandbox sandbox(uneven_rows);
  Environment environment = seed(2);
  environment["LOCKSTEP_EMULATION_DEVICES"] = "1";
  environment["TRAIN_FAULT"] = "rank=1,step=3,at=forward,do=stall:30";
  const auto end = sandbox.run(
      on_gpus(sandbox, 2, settings_of("on", {"comm.timeout=2"}), {"--oversubscribe"}), environment);
  EXPECT_EQ(end.exit_code, 6) << end.output;
  EXPECT_THAT(end.last_line, HasSubstr("rank 1"));
  EXPECT_THAT(end.output, HasSubstr("rank 1 did not arrive"));
}

// The other rank comes late to the first of many buckets, so that is where the time goes, and no
// later one; by calls as by graph.
TEST(EmulatedGraphs, WaitingForAnyBucketIsExposed) {
  const Sandbox sandbox(uneven_rows);
  Environment environment = seed(2);
  environment["TRAIN_FAULT"] = "rank=1,at=forward,do=stall:0.03";
  for (const auto& [graph, backend] :
       {std::pair("off", "ring"), std::pair("on", "ring"), std::pair("auto", "nccl")}) {
    Arguments settings = settings_of(graph, {small_buckets}, 3);
    settings.push_back(fmt::format("comm.backend={}", backend));
    const auto end = sandbox.run(on_gpus(sandbox, 2, settings), environment);
    ASSERT_EQ(end.exit_code, 0) << end.output;
    const auto steps = metrics(run_folder(sandbox, end), "step");
    ASSERT_EQ(steps.size(), 12u);
    double communication = 0, exposed = 0;
    for (const auto& step : steps) {
      communication += step["communication_seconds"].get<double>();
      exposed += step["exposed_seconds"].get<double>();
      double sum = 0;
      for (const auto& part : step["parts"]) sum += part.get<double>();
      EXPECT_NEAR(sum, step["seconds"].get<double>(), 1e-9);
    }
    EXPECT_GT(communication, 12 * 0.02) << graph << " " << backend;
    EXPECT_GT(exposed, 0.5 * communication) << graph << " " << backend;
    EXPECT_LE(exposed, communication) << graph << " " << backend;
  }
}

// compute.graph: on suited the machine that trained, and an evaluation has no steps.
TEST(EmulatedGraphs, ACheckpointIsEvaluatedWhereThereAreNone) {
  const Sandbox sandbox(uneven_rows);
  Arguments settings = settings_of("on", {}, 1);
  settings.emplace_back("checkpoint.every_epochs=1");
  const auto gpus = sandbox.run(on_gpus(sandbox, 2, settings));
  ASSERT_EQ(gpus.exit_code, 0) << gpus.output;
  const auto end = sandbox.run(
      {train_program, "evaluate", newest_checkpoint_of(run_folder(sandbox, gpus)), "--gpus", "2"});
  EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST(EmulatedGraphs, ThatAreAskedForWhereThereAreNoneAreRefusedBeforeARun) {
  const Sandbox sandbox(uneven_rows);
  const auto end = sandbox.run(sandbox.train(2, {"compute.graph=on"}, {"--device", "auto"}));
  EXPECT_EQ(end.exit_code, 2) << end.output;
  EXPECT_THAT(end.output, HasSubstr("error: compute.graph: found on, expected auto or off with "
                                    "compute.device: cpu"));
  EXPECT_FALSE(std::filesystem::exists(sandbox.path("runs")));
}

// SIG-1, when a step is enqueued that the host has not read.
TEST(EmulatedGraphs, AnInterruptedRunSavesTheStepThatItStoppedAfter) {
  const Sandbox sandbox(uneven_rows);
  Arguments settings = settings_of("on", {}, 100000);
  settings.emplace_back("checkpoint.every_epochs=100000");
  Program program(on_gpus(sandbox, 2, settings), sandbox.options(seed(2)));
  program.wait_for_output("epoch 3/100000 done");
  program.signal(SIGINT);
  const auto end = program.wait();
  EXPECT_EQ(end.exit_code, 130) << end.output;
  const std::string folder = run_folder(sandbox, end);
  EXPECT_THAT(rank_log(folder, 0), HasSubstr(launched));
  const auto step = metrics(folder, "step").back()["step"].get<std::int64_t>();
  EXPECT_THAT(end.output, HasSubstr(fmt::format("stopped after step {}", step)));
  EXPECT_EQ(train::summarize_checkpoint(newest_checkpoint_of(folder)).progress.steps_done, step);
}

// HANG-1, in a launched step: kernels of the others wait until the deadline.
TEST(EmulatedGraphs, ARankThatLaunchesNothingIsNamed) {
  const Sandbox sandbox(uneven_rows);
  Environment environment = seed(2);
  environment["TRAIN_FAULT"] = "rank=2,step=9,at=forward,do=stall:30";
  for (const Arguments& settings :
       {Arguments{}, Arguments{"data_parallel.sharding=optimizer", "train.loss_scale=dynamic"},
        Arguments{"data_parallel.hook=fp16", "train.on_nonfinite=skip"}}) {
    Arguments all = settings_of("on", settings);
    all.emplace_back("comm.timeout=2");
    const auto end = sandbox.run(on_gpus(sandbox, 3, all), environment);
    EXPECT_EQ(end.exit_code, 6) << end.output;
    EXPECT_THAT(rank_log(run_folder(sandbox, end), 0), HasSubstr(launched));
    EXPECT_THAT(end.last_line, HasSubstr("rank 2"));
    EXPECT_THAT(end.output, HasSubstr("rank 2 did not arrive"));
  }
}

// HANG-2: a rank that fails in the middle of a run of launched steps.
TEST(EmulatedGraphs, ARankThatFailsEndsTheOthers) {
  const Sandbox sandbox(uneven_rows);
  Environment environment = seed(3);
  environment["TRAIN_FAULT"] = "rank=1,step=9,do=raise,at=read";
  for (const Arguments& settings :
       {Arguments{}, Arguments{"data_parallel.sharding=optimizer", "train.on_nonfinite=skip"}}) {
    const auto end = sandbox.run(on_gpus(sandbox, 3, settings_of("on", settings)), environment);
    EXPECT_NE(end.exit_code, 0);
    EXPECT_NE(end.exit_code, 99) << end.output;
    EXPECT_THAT(end.last_line, HasSubstr("rank 1 in step 9"));
  }
}

// Whoever fails and wherever: what the last finished step came to is known, though the host had not
// read it.
TEST(EmulatedGraphs, TheLastFinishedStepIsRecordedWhenARankFails) {
  const Sandbox sandbox(uneven_rows);
  for (const char* const fault :
       {"rank=0,step=7,do=raise,at=read", "rank=1,step=7,do=raise,at=read",
        "rank=0,step=7,do=raise,at=forward"}) {
    Environment environment = seed(2);
    environment["TRAIN_FAULT"] = fault;
    for (const char* const backend : {"comm.backend=ring", "comm.backend=nccl"}) {
      Arguments settings = settings_of("auto", {});
      settings.emplace_back(backend);
      const auto end = sandbox.run(on_gpus(sandbox, 2, settings), environment);
      EXPECT_NE(end.exit_code, 0);
      EXPECT_NE(end.exit_code, 99) << end.output;
      const auto steps = metrics(run_folder(sandbox, end), "step");
      ASSERT_FALSE(steps.empty());
      EXPECT_EQ(steps.back()["step"], 6) << fault << " " << backend;
      EXPECT_EQ(steps.size(), 6u);
    }
  }
}

}  // namespace
}  // namespace lockstep::tests

// Training on emulated GPUs: the kernels, streams, averager and ring that real ones would run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/end_to_end/emulated_gpus.h"

namespace lockstep::tests {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Products and sums are formed in another order than on the CPU, so losses agree up to rounding:
// to a few units of the last place of a float, which grow a little with each update.
constexpr double tolerance = 5e-6;
constexpr double double_tolerance = 1e-12;

struct Variant {
  std::string name;
  int workers = 2;
  Arguments settings = {};
  int seed = 1;
  double tolerance = tests::tolerance;
};

std::ostream& operator<<(std::ostream& out, const Variant& variant) {
  return out << variant.name;
}

class EmulatedTraining : public ::testing::TestWithParam<Variant> {};

// Many buckets, of which each ends somewhere in a tensor.
const std::string small_buckets = "data_parallel.bucket_mib=0.0003";
const std::string small_first = "data_parallel.first_bucket_mib=0.0001";

INSTANTIATE_TEST_SUITE_P(
    Variants, EmulatedTraining,
    ::testing::Values(
        Variant{"OneGpu", 1},  //
        Variant{"TwoGpus", 2, {"train.epochs=2"}, 2},
        Variant{"ThreeGpus", 3, {small_buckets, small_first}, 3},
        Variant{"EightGpusDeferred", 8, {}, 3}, Variant{"EightGpusInAnyOrder", 8, {}, 1},
        Variant{"NesterovByRing",
                3,
                {"optimizer.momentum=0.9", "optimizer.nesterov=true", "comm.algorithm=ring"},
                2},
        Variant{"Adam", 2, {"optimizer.name=adam", "optimizer.lr=0.01"}, 3},
        Variant{"AdamW", 3, {"optimizer.name=adamw", "optimizer.weight_decay=0.1"}, 4},
        Variant{"Accumulation", 3, {"train.accumulate=3"}, 6},
        Variant{"ShardedAdam",
                3,
                {"optimizer.name=adam", "data_parallel.sharding=optimizer", small_buckets,
                 "checkpoint.every_steps=2"},
                3},
        Variant{"BatchNorm", 2, {"model.batch_norm=true", "data.drop_last=true"}, 3},
        Variant{"AveragedBatchNorm",
                2,
                {"model.batch_norm=true", "data.drop_last=true", "data_parallel.buffers=average"},
                6},
        Variant{"ClippedByNorm", 2, {"optimizer.clip_norm=0.1", small_buckets}, 3},
        Variant{"ClippedByValueWithoutOverlap",
                2,
                {"optimizer.clip_value=0.01", "model.activation=gelu",
                 "data_parallel.overlap=false", small_buckets},
                3},
        Variant{"GeluByTanh", 2, {"model.activation=gelu_tanh"}, 2},
        Variant{"LossScaleWithoutPrefetch", 2, {"train.loss_scale=dynamic", "data.prefetch=0"}, 6},
        Variant{"DropoutByTwoShot",
                3,
                {"model.dropout=0.3", "train.label_smoothing=0.1", "comm.algorithm=two_shot",
                 "optimizer.per_bucket=off"},
                3},
        // Rounding to 16 bits makes more of what differs.
        Variant{"Bf16Hook", 2, {"data_parallel.hook=bf16", small_buckets}, 3, 1e-4},
        Variant{"Fp16Hook", 3, {"data_parallel.hook=fp16", small_buckets}, 6, 1e-5},
        Variant{"OverNccl", 2, {"comm.backend=nccl"}, 3},
        Variant{"OverTwoHosts",
                4,
                {"comm.backend=ring+nccl", "comm.ranks_per_host=2", small_buckets},
                2},
        Variant{"Tf32Products", 2, {"compute.products=tf32"}, 3, 1e-3},
        Variant{"Bf16Products", 2, {"compute.products=bfloat16", "model.activation=gelu"}, 4, 1e-2},
        Variant{"Float64", 2, {"train.dtype=float64"}, 3, double_tolerance}),
    [](const auto& variant) { return variant.param.name; });

// Digests of all ranks are compared after each update, and a difference would end the run.
TEST_P(EmulatedTraining, GivesTheLossesOfTheCpuOnEqualReplicas) {
  const Variant& variant = GetParam();
  const Sandbox sandbox(few_rows);
  // The own ring between CPUs has other algorithms, and products there are float32's.
  Arguments cpu_settings = variant.settings;
  std::erase_if(cpu_settings, [](const std::string& s) {
    return s.starts_with("comm.") || s.starts_with("compute.products");
  });
  const auto cpu = sandbox.run(on_cpus(sandbox, variant.workers, cpu_settings));
  ASSERT_EQ(cpu.exit_code, 0) << cpu.output;
  const auto gpus =
      sandbox.run(on_gpus(sandbox, variant.workers, variant.settings), seed(variant.seed));
  ASSERT_EQ(gpus.exit_code, 0) << gpus.output;
  EXPECT_THAT(gpus.output, AnyOf(HasSubstr(fmt::format("training on {} GPU", variant.workers)),
                                 HasSubstr(fmt::format("{} workers on ", variant.workers))));

  const std::vector<double> expected = losses_of(sandbox, cpu);
  const std::vector<double> found = losses_of(sandbox, gpus);
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_GE(found.size(), 5u);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], variant.tolerance * expected[i]) << "value " << i;
  const auto digests = metrics(run_folder(sandbox, gpus), "weights");
  EXPECT_EQ(digests.size(), metrics(run_folder(sandbox, gpus), "step").size());
}

// Parameters of float32 are master weights. What products read is written by the optimizer's step;
// a rank that has but a slice of the optimizer rounds instead, as does one that begins anew.
TEST(EmulatedGpus, ReadWorkingCopiesOfMasterWeights) {
  const Sandbox sandbox(few_rows);
  const Arguments settings{"compute.products=bfloat16", "optimizer.name=adamw",
                           "optimizer.weight_decay=0.1", "comm.algorithm=two_shot", small_buckets};
  const auto run = [&](Arguments more, const Arguments& options = {}) {
    more.insert(more.begin(), settings.begin(), settings.end());
    const auto end = sandbox.run(on_gpus(sandbox, 2, more, options), seed(5));
    EXPECT_EQ(end.exit_code, 0) << end.output;
    return end;
  };
  const auto whole = run({"checkpoint.every_steps=3"});
  EXPECT_THAT(whole.output, HasSubstr("products read a copy of the parameters in bfloat16"));
  const auto sharded = run({"data_parallel.sharding=optimizer"});
  EXPECT_THAT(sharded.output, Not(HasSubstr("products read a copy")));
  EXPECT_EQ(final_weights(sharded), final_weights(whole));
  const auto checkpoints =
      std::filesystem::directory_iterator(run_folder(sandbox, whole) + "/checkpoints");
  std::vector<std::string> saved;
  for (const auto& entry : checkpoints) saved.push_back(entry.path());
  ASSERT_GE(saved.size(), 2u);
  std::sort(saved.begin(), saved.end());
  EXPECT_EQ(final_weights(run({}, {"--resume", saved.front()})), final_weights(whole));
}

// GRAD-7: whatever the interleaving of host, streams and blocks.
TEST(EmulatedGpus, GiveTheSameBitsWithEverySeed) {
  const Sandbox sandbox(few_rows);
  std::vector<std::string> weights;
  for (const int number : {1, 2, 3}) {
    const auto end =
        sandbox.run(on_gpus(sandbox, 3, {small_buckets, "optimizer.name=adam"}), seed(number));
    ASSERT_EQ(end.exit_code, 0) << end.output;
    weights.push_back(final_weights(end));
  }
  EXPECT_EQ(std::count(weights.begin(), weights.end(), weights.front()), 3) << weights[0];
}

// COLL-1 as a run has it: buckets of a few elements, the last shorter, in worlds that share the
// eight GPUs too.
TEST(EmulatedGpus, AverageBucketsOfOddSizes) {
  const Sandbox sandbox(few_rows);
  const Arguments settings{"model.hidden=[7]", "data_parallel.bucket_mib=0.00007",
                           "data_parallel.first_bucket_mib=0.00007", "train.steps=1"};
  const auto cpu = sandbox.run(on_cpus(sandbox, 1, settings));
  ASSERT_EQ(cpu.exit_code, 0) << cpu.output;
  const double expected = losses_of(sandbox, cpu).back();  // behind the update
  for (const int workers : {2, 5, 9}) {
    const auto end =
        sandbox.run(on_gpus(sandbox, workers, settings, {"--oversubscribe"}), seed(workers));
    ASSERT_EQ(end.exit_code, 0) << end.output;
    EXPECT_NEAR(losses_of(sandbox, end).back(), expected, tolerance * expected) << workers;
  }
}

// COLL-2 as a run has it: hundreds of collectives behind the kernels of a backward pass, with
// ranks that are late by turns; each update verified by digests and losses.
TEST(EmulatedGpus, KeepCollectivesAndKernelsInOrderWhereRanksAreLate) {
  const Sandbox sandbox(few_rows);
  const Arguments settings{small_buckets, small_first, "train.epochs=4"};
  const auto cpu = sandbox.run(on_cpus(sandbox, 3, settings));
  ASSERT_EQ(cpu.exit_code, 0) << cpu.output;
  Environment environment = seed(5);
  environment["TRAIN_FAULT"] =
      "rank=0,step=3,at=before_allreduce,do=stall:0.02;rank=1,step=7,at=forward,do=stall:0.05;"
      "rank=2,step=11,at=before_allreduce,do=stall:0.01;rank=1,step=12,at=read,do=stall:0.03;"
      "rank=0,step=18,at=after_step,do=stall:0.02";
  const auto gpus = sandbox.run(on_gpus(sandbox, 3, settings), environment);
  ASSERT_EQ(gpus.exit_code, 0) << gpus.output;
  const std::vector<double> expected = losses_of(sandbox, cpu);
  const std::vector<double> found = losses_of(sandbox, gpus);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 4 * tolerance * expected[i]) << "value " << i;
}

class EmulatedCheckpoints : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Sharding, EmulatedCheckpoints, ::testing::Values("none", "optimizer"));

// A checkpoint knows nothing of the device: half a run on either kind and half on the other ends
// where a whole one does.
TEST_P(EmulatedCheckpoints, MoveBetweenGpusAndCpus) {
  const Sandbox sandbox(few_rows);
  const std::string sharding = std::string("data_parallel.sharding=") + GetParam();
  const Arguments whole{"optimizer.name=adam", "model.batch_norm=true", "data.drop_last=true",
                        sharding};
  Arguments half = whole;
  half.push_back("train.steps=2");
  const auto parameters_behind = [&](const Program::End& end) {
    EXPECT_EQ(end.exit_code, 0) << end.output;
    return parameters_of(newest_checkpoint_of(run_folder(sandbox, end)));
  };
  const auto first_half = [&](const Arguments& command) -> Arguments {
    const auto end = sandbox.run(command);
    EXPECT_EQ(end.exit_code, 0) << end.output;
    return {"--resume", newest_checkpoint_of(run_folder(sandbox, end))};
  };
  const auto expected = parameters_behind(sandbox.run(on_cpus(sandbox, 2, whole)));
  const Arguments from_gpus = first_half(on_gpus(sandbox, 2, half));
  const Arguments from_cpus = first_half(on_cpus(sandbox, 2, half));
  const auto on_cpu = parameters_behind(sandbox.run(on_cpus(sandbox, 2, whole, from_gpus)));
  const auto on_gpu = parameters_behind(sandbox.run(on_gpus(sandbox, 2, whole, from_cpus)));
  // Adam's first updates divide by gradients, small ones included, whose rounding shows then.
  constexpr double of_adam = 1e-4;
  EXPECT_LT(largest_relative_difference(on_cpu, expected), of_adam);
  EXPECT_LT(largest_relative_difference(on_gpu, expected), of_adam);

  // CKPT-1: on one kind of device exactly.
  const auto straight = sandbox.run(on_gpus(sandbox, 2, whole), seed(2));
  const auto resumed = sandbox.run(on_gpus(sandbox, 2, whole, from_gpus), seed(3));
  EXPECT_EQ(final_weights(resumed), final_weights(straight));
}

// Digests are of values, wherever they lie.
TEST(EmulatedGpus, GiveTheDigestOfTheCpu) {
  const Sandbox sandbox(few_rows);
  const Arguments settings{"train.steps=2", "optimizer.name=adam"};
  const auto cpu = sandbox.run(on_cpus(sandbox, 2, settings));
  ASSERT_EQ(cpu.exit_code, 0) << cpu.output;
  // Which has nothing more to do.
  const auto gpus = sandbox.run(
      on_gpus(sandbox, 2, settings, {"--resume", newest_checkpoint_of(run_folder(sandbox, cpu))}));
  ASSERT_EQ(gpus.exit_code, 0) << gpus.output;
  EXPECT_EQ(final_weights(gpus), final_weights(cpu));
}

TEST(EmulatedGpus, EvaluateACheckpointOfTheCpu) {
  const Sandbox sandbox(few_rows);
  const auto cpu = sandbox.run(on_cpus(sandbox, 2));
  ASSERT_EQ(cpu.exit_code, 0) << cpu.output;
  const auto end = sandbox.run({LOCKSTEP_TRAIN_EMULATED, "evaluate",
                                newest_checkpoint_of(run_folder(sandbox, cpu)), "--gpus", "2",
                                "--launcher", "threads", "--set", "compute.pin=off"});
  ASSERT_EQ(end.exit_code, 0) << end.output;
  EXPECT_THAT(end.output, HasSubstr("training on 2 GPUs"));
  EXPECT_NEAR(losses_of(sandbox, end).back(), losses_of(sandbox, cpu).back(), 1e-6);
}

}  // namespace
}  // namespace lockstep::tests

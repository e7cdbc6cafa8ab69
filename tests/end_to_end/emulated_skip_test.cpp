// Updates on emulated GPUs that are left out because their gradients are not finite: the host
// learns of one when the next is on its way, and all is as on CPUs, where it knows at once.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/end_to_end/emulated_gpus.h"
#include "train/checkpoint.h"

namespace lockstep::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Epochs of four batches of 16 rows in one order, of which the last is an uneven one of 11.
constexpr MadeData uneven_rows{.training_samples = 59, .test_samples = 23};
constexpr const char* launched = "steps of 16 rows are launched as a CUDA graph from here on";
const std::string small_buckets = "data_parallel.bucket_mib=0.0006";

Arguments settings_of(Arguments more) {
  for (const char* const setting :
       {"consistency.every=0", "checkpoint.every_epochs=null", "checkpoint.every_steps=7",
        "train.evaluate_every=0", "train.epochs=3", "data.shuffle=false", "train.dtype=float64"})
    more.emplace_back(setting);
  return more;
}

// What rank 0 said of updates that it left out, in words that are the same on CPUs.
std::vector<std::string> skips_of(const std::string& run_folder) {
  std::istringstream lines(rank_log(run_folder, 0));
  std::vector<std::string> skips;
  for (std::string line; std::getline(lines, line);)
    if (line.find("skipped on all ranks") != line.npos)
      skips.push_back(line.substr(line.find("the gradients of step")));
  return skips;
}

struct Variant {
  std::string name;
  int workers = 2;
  std::vector<std::int64_t> bad_rows;  // of training samples
  std::size_t skips = 0;
  Arguments settings = {};
  int seed = 1;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant) {
  return out << variant.name;
}

class EmulatedSkips : public ::testing::TestWithParam<Variant> {};

INSTANTIATE_TEST_SUITE_P(
    Variants, EmulatedSkips,
    ::testing::Values(
        // One of them the step after another.
        Variant{"TwoInARow",
                2,
                {20, 40},
                6,
                {"train.on_nonfinite=skip", "optimizer.name=adam", "model.batch_norm=true"},
                2},
        // The first of an epoch, and the uneven last one.
        Variant{"AtBothEndsOfAnEpochWithALossScale",
                2,
                {3, 50},
                6,
                {"train.loss_scale=dynamic", "optimizer.momentum=0.9", "schedule.name=cosine",
                 "model.dropout=0.3"},
                3},
        Variant{"OfShardsAndAveragedBuffers",
                2,
                {33, 50},
                6,
                {"train.loss_scale=dynamic", "data_parallel.sharding=optimizer",
                 "data_parallel.buffers=average", "optimizer.name=adamw", "optimizer.clip_norm=0.5",
                 "model.batch_norm=true", small_buckets},
                6},
        Variant{"OfHalfGradients",
                2,
                {40},
                3,
                {"train.on_nonfinite=skip", "data_parallel.hook=fp16", "train.accumulate=2",
                 "optimizer.momentum=0.9"},
                4}),
    [](const auto& variant) { return variant.param.name; });

TEST_P(EmulatedSkips, AreThoseOfTheCpu) {
  const Variant& variant = GetParam();
  const Sandbox sandbox(uneven_rows);
  for (const std::int64_t row : variant.bad_rows) sandbox.put_nan(row, 5);
  const Arguments settings = settings_of(variant.settings);
  const auto on_graphs = [&](const char* graph, const Arguments& more = {}) {
    Arguments all = settings;
    all.push_back(std::string("compute.graph=") + graph);
    const auto end = sandbox.run(on_gpus(sandbox, variant.workers, all, more), seed(variant.seed));
    EXPECT_EQ(end.exit_code, 0) << end.output;
    return end;
  };
  const auto cpu = sandbox.run(on_cpus(sandbox, variant.workers, settings));
  ASSERT_EQ(cpu.exit_code, 0) << cpu.output;
  const auto gpus = on_graphs("on");
  const auto by_calls = on_graphs("off");
  const std::string folder = run_folder(sandbox, gpus);
  EXPECT_THAT(rank_log(folder, 0), HasSubstr(launched));

  const auto skips = skips_of(folder);
  EXPECT_THAT(skips, SizeIs(variant.skips));
  EXPECT_EQ(skips, skips_of(run_folder(sandbox, cpu)));
  const auto steps = metrics(folder, "step");
  const auto expected = metrics(run_folder(sandbox, cpu), "step");
  ASSERT_THAT(steps, SizeIs(12));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i]["step"], i + 1);
    for (const char* const value : {"loss", "accuracy", "lr"})
      EXPECT_NEAR(steps[i][value].get<double>(), expected[i][value].get<double>(), 1e-4)
          << value << " of step " << i + 1;
  }
  EXPECT_EQ(final_weights(gpus), final_weights(by_calls));
  EXPECT_EQ(losses_of(sandbox, gpus), losses_of(sandbox, by_calls));

  // A checkpoint behind one of them knows of none that is on its way, and resuming is exact.
  const std::string middle = "/checkpoints/step-00000007.h5";
  const auto found = train::summarize_checkpoint(folder + middle).progress;
  const auto wanted = train::summarize_checkpoint(run_folder(sandbox, cpu) + middle).progress;
  EXPECT_EQ(found.steps_done, 7);
  EXPECT_EQ(found.loss_scale, wanted.loss_scale);
  const auto resumed = on_graphs("on", {"--resume", folder + middle});
  EXPECT_EQ(final_weights(resumed), final_weights(gpus));
}

// What is taken for granted of the update before it: the loss scale, which that would have raised.
TEST(EmulatedLossScale, DoesNotGrowByAnUpdateThatIsLeftOut) {
  const Sandbox sandbox({.training_samples = 107, .test_samples = 23});  // seven batches
  Arguments settings{"train.loss_scale=dynamic", "train.epochs=300", "optimizer.lr=0.001",
                     "consistency.every=0", "train.evaluate_every=0"};
  settings.emplace_back("checkpoint.every_epochs=299");
  settings.emplace_back("train.steps=1996");
  const auto start = sandbox.run(on_cpus(sandbox, 1, settings));
  ASSERT_EQ(start.exit_code, 0) << start.output;
  settings.back() = "train.steps=2004";
  const std::string checkpoint = newest_checkpoint_of(run_folder(sandbox, start));
  for (const bool fails : {false, true}) {
    Environment environment = seed(3);
    if (fails) environment["TRAIN_FAULT"] = "rank=1,step=2000,at=gradient,do=inf";
    const auto end =
        sandbox.run(on_gpus(sandbox, 2, settings, {"--resume", checkpoint}), environment);
    ASSERT_EQ(end.exit_code, 0) << end.output;
    const auto progress =
        train::summarize_checkpoint(newest_checkpoint_of(run_folder(sandbox, end))).progress;
    EXPECT_EQ(progress.steps_done, 2004);
    EXPECT_EQ(progress.loss_scale.value, fails ? 32768 : 131072);
    EXPECT_EQ(progress.loss_scale.clean_steps, 4);
  }
}

// A rank whose steps are not captured, and that finds an update to be left out with the others.
TEST(EmulatedSkip, IsTakenByRanksWithAGraphAndWithout) {
  const Sandbox sandbox(uneven_rows);
  const Arguments settings =
      settings_of({"train.on_nonfinite=skip", "data_parallel.sharding=optimizer"});
  Environment environment = seed(2);
  environment["TRAIN_FAULT"] = "rank=1,step=6,at=gradient,do=nan";
  const auto end = sandbox.run(on_gpus(sandbox, 3, settings), environment);
  ASSERT_EQ(end.exit_code, 0) << end.output;
  const std::string folder = run_folder(sandbox, end);
  EXPECT_THAT(rank_log(folder, 0), HasSubstr(launched));
  EXPECT_THAT(rank_log(folder, 1), HasSubstr("call by call"));
  const auto skips = skips_of(folder);
  ASSERT_THAT(skips, SizeIs(1));
  EXPECT_THAT(skips[0], AllOf(HasSubstr("step 6"), HasSubstr("on rank 1")));
}

}  // namespace
}  // namespace lockstep::tests

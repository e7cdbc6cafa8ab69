// Communication hooks with residuals on emulated GPUs, in whole runs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/end_to_end/emulated_gpus.h"

namespace lockstep::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class HooksOnGpus : public ::testing::TestWithParam<const char*> {
 protected:
  bool is_top_k() const { return std::string(GetParam()) == "top_k"; }
  // A model with matrices that are worth compressing, in several buckets.
  Arguments settings(const Arguments& more = {}) const {
    Arguments all{"model.hidden=[64, 32]", std::string("data_parallel.hook=") + GetParam(),
                  "data_parallel.bucket_mib=0.004", "optimizer.momentum=0.9"};
    if (is_top_k()) {
      all.push_back("data_parallel.top_k_ratio=0.05");
    } else {
      all.push_back("data_parallel.power_sgd_rank=2");
      all.push_back("data_parallel.power_sgd_start=2");
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(Names, HooksOnGpus, ::testing::Values("top_k", "power_sgd"));

TEST_P(HooksOnGpus, GiveTheLossesOfTheCpuOnAnyNumberOfWorkers) {
  const Sandbox sandbox(few_rows);
  for (const int workers : {1, 2, 4}) {
    const auto cpu = sandbox.run(on_cpus(sandbox, workers, settings()));
    ASSERT_EQ(cpu.exit_code, 0) << cpu.output;
    const auto gpus = sandbox.run(on_gpus(sandbox, workers, settings()), seed(workers));
    ASSERT_EQ(gpus.exit_code, 0) << gpus.output;
    const auto expected = losses_of(sandbox, cpu), found = losses_of(sandbox, gpus);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]) << workers << ", value " << i;
    for (const char* const key : {"reduced_bytes", "sent_bytes"})
      EXPECT_EQ(metrics(run_folder(sandbox, gpus), "step").back()[key],
                metrics(run_folder(sandbox, cpu), "step").back()[key]);
  }
}

// CKPT-1 and CKPT-4: residuals and bases move between GPUs and CPUs, exactly where both halves of a
// run are on GPUs.
TEST_P(HooksOnGpus, ResumeOnEitherKindOfDevice) {
  const Sandbox sandbox(few_rows);
  const Arguments whole = settings({"train.steps=6", "train.epochs=2"});
  Arguments half = settings({"train.steps=3", "train.epochs=2"});
  const auto ended = [&](const Arguments& command, int number = 1) {
    auto end = sandbox.run(command, seed(number));
    EXPECT_EQ(end.exit_code, 0) << end.output;
    return end;
  };
  const auto resumed = [&](const Program::End& end) -> Arguments {
    return {"--resume", newest_checkpoint_of(run_folder(sandbox, end))};
  };
  const auto straight = ended(on_gpus(sandbox, 3, whole));
  const Arguments from_gpus = resumed(ended(on_gpus(sandbox, 3, half), 2));
  const Arguments from_cpus = resumed(ended(on_cpus(sandbox, 3, half)));
  EXPECT_EQ(final_weights(ended(on_gpus(sandbox, 3, whole, from_gpus), 3)),
            final_weights(straight));
  const auto expected = losses_of(sandbox, straight).back();
  for (const auto& end : {ended(on_cpus(sandbox, 3, whole, from_gpus)),
                          ended(on_gpus(sandbox, 3, whole, from_cpus))}) {
    EXPECT_THAT(end.output, Not(HasSubstr("starts anew")));
    EXPECT_NEAR(losses_of(sandbox, end).back(), expected, 1e-4 * expected);
  }
  // The residuals of three are shared out among two.
  ended(on_gpus(sandbox, 2, whole, from_gpus));
}

TEST_P(HooksOnGpus, SkipAStepOnAllRanksTogether) {
  const Sandbox sandbox(few_rows);
  for (const char* const damage : {"nan", "inf"}) {
    const auto end =
        sandbox.run(on_gpus(sandbox, 3, settings({"train.on_nonfinite=skip"})),
                    {{"TRAIN_FAULT", fmt::format("rank=2,step=3,at=gradient,do={}", damage)}});
    ASSERT_EQ(end.exit_code, 0) << end.output;
    EXPECT_THAT(end.output, HasSubstr("the gradients of step 3 are not finite on rank 2"));
    EXPECT_THAT(end.output, Not(HasSubstr("the gradients of step 4")));
  }
}

TEST_P(HooksOnGpus, StopNamingTheRankAndAreNotLaunchedAsGraphs) {
  const Sandbox sandbox(few_rows);
  const auto end = sandbox.run(on_gpus(sandbox, 2, settings()),
                               {{"TRAIN_FAULT", "rank=1,step=3,at=gradient,do=inf"}});
  EXPECT_EQ(end.exit_code, 7) << end.output;
  EXPECT_THAT(end.output, HasSubstr("step 3 are not finite on rank 1"));
  EXPECT_THAT(end.output, HasSubstr(std::string("data_parallel.hook: ") + GetParam()));
}

}  // namespace
}  // namespace lockstep::tests

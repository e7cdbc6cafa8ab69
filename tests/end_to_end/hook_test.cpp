// Communication hooks in whole runs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/end_to_end/sandbox.h"

namespace lockstep::tests {
namespace {

using ::testing::HasSubstr;

// A model with matrices that are worth compressing.
Arguments settings_of(const std::string& hook, const Arguments& more = {}) {
  Arguments settings{"model.hidden=[64, 32]", "data_parallel.hook=" + hook, "consistency.every=1"};
  if (hook == "top_k") settings.push_back("data_parallel.top_k_ratio=0.05");
  if (hook == "power_sgd") {
    settings.push_back("data_parallel.power_sgd_rank=2");
    settings.push_back("data_parallel.power_sgd_start=5");
  }
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

struct Trained {
  double accuracy = 0;
  double bytes = 0, sent = 0;  // of the last step
};

Trained train_with(const Sandbox& sandbox, const std::string& hook, const Arguments& more = {}) {
  Arguments all{"train.epochs=6", "optimizer.momentum=0.9"};
  all.insert(all.end(), more.begin(), more.end());
  const auto end = sandbox.run(sandbox.train(4, settings_of(hook, all)));
  EXPECT_EQ(end.exit_code, 0) << end.output;
  if (end.exit_code != 0) return {};
  const std::string folder = run_folder(sandbox, end);
  const auto step = metrics(folder, "step").back();
  return {metrics(folder, "evaluation").back()["accuracy"], step["reduced_bytes"],
          step["sent_bytes"]};
}

// Each hook ends up within 2 points of the accuracy without one, and with the bytes it promises.
// 3,077 parameters, of which power_sgd of rank 2 makes 2 * (64 + 12 + 32 + 64 + 5 + 32) and the
// 101 biases. Padding between parameters travels, too.
TEST(HookRuns, LearnAsWellWithFewerBytes) {
  const Sandbox sandbox({.training_samples = 1003, .test_samples = 1003});
  const Trained plain = train_with(sandbox, "none");
  EXPECT_GT(plain.accuracy, 0.97);
  EXPECT_NEAR(plain.bytes, 3077 * 4, 3077 * 0.2);
  EXPECT_NEAR(plain.sent, plain.bytes * 2 * 3 / 4, 8);
  const std::pair<const char*, double> hooks[] = {
      {"bf16", 0.5}, {"fp16", 0.5}, {"top_k", 0.1}, {"power_sgd", (2 * 209 + 101) / 3077.0}};
  for (const auto& [hook, factor] : hooks) {
    const Trained trained = train_with(sandbox, hook);
    EXPECT_GT(trained.accuracy, plain.accuracy - 0.02) << hook;
    EXPECT_NEAR(trained.bytes / plain.bytes, factor, 0.02) << hook;
  }
}

class HooksWithState : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Names, HooksWithState, ::testing::Values("top_k", "power_sgd"));

// CKPT-1 with residuals, which every rank has of its own.
TEST_P(HooksWithState, ResumeExactly) {
  const Sandbox sandbox;
  for (const char* scale : {"train.loss_scale=none", "train.loss_scale=dynamic"}) {
    const Arguments common{"optimizer.momentum=0.9", scale};
    Arguments settings = settings_of(GetParam(), common);
    settings.push_back("train.steps=20");
    const auto whole = sandbox.run(sandbox.train(4, settings));
    ASSERT_EQ(whole.exit_code, 0) << whole.output;
    settings.back() = "train.steps=9";
    const auto first = sandbox.run(sandbox.train(4, settings));
    ASSERT_EQ(first.exit_code, 0) << first.output;
    settings.back() = "train.steps=20";
    const auto rest =
        sandbox.run(sandbox.train(4, settings, {"--resume", run_folder(sandbox, first)}));
    ASSERT_EQ(rest.exit_code, 0) << rest.output;
    EXPECT_EQ(final_weights(rest), final_weights(whole));
    // The residuals matter: without them the run is another one.
    settings[1] = "data_parallel.hook=none";
    settings.erase(settings.begin() + 3, settings.begin() + (GetParam()[0] == 't' ? 4 : 5));
    const auto plain =
        sandbox.run(sandbox.train(4, settings, {"--resume", run_folder(sandbox, first)}));
    ASSERT_EQ(plain.exit_code, 0) << plain.output;
    EXPECT_THAT(plain.output, HasSubstr(fmt::format("saved with hook {}", GetParam())));
    EXPECT_NE(final_weights(plain), final_weights(whole));
  }
}

// CKPT-4: the residuals of four are shared out among three and two.
TEST_P(HooksWithState, GoOnOnAnotherNumberOfWorkers) {
  const Sandbox sandbox({.training_samples = 1003, .test_samples = 1003});
  const auto first = sandbox.run(sandbox.train(4, settings_of(GetParam(), {"train.epochs=3"})));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  for (int workers : {3, 2}) {
    const auto rest =
        sandbox.run(sandbox.train(workers, settings_of(GetParam(), {"train.epochs=8"}),
                                  {"--resume", run_folder(sandbox, first)}));
    ASSERT_EQ(rest.exit_code, 0) << rest.output;
    EXPECT_GT(metrics(run_folder(sandbox, rest), "evaluation").back()["accuracy"], 0.9);
  }
}

class AllHooks : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Names, AllHooks, ::testing::Values("bf16", "fp16", "top_k", "power_sgd"));

// GRAD-5: the step is left out on all ranks, and its trace in residuals and bases, too.
TEST_P(AllHooks, SkipAStepOnAllRanksTogether) {
  const Sandbox sandbox;
  for (const char* damage : {"nan", "inf"}) {
    const auto end = sandbox.run(
        sandbox.train(4, settings_of(GetParam(), {"train.epochs=1", "train.on_nonfinite=skip"})),
        {{"TRAIN_FAULT", fmt::format("rank=3,step=6,at=gradient,do={}", damage)}});
    ASSERT_EQ(end.exit_code, 0) << end.output;
    EXPECT_THAT(end.output, HasSubstr("the gradients of step 6 are not finite on rank 3"));
    EXPECT_THAT(end.output, Not(HasSubstr("the gradients of step 7")));
  }
}

TEST_P(AllHooks, StopNamingTheRank) {
  const Sandbox sandbox;
  const auto end = sandbox.run(sandbox.train(4, settings_of(GetParam())),
                               {{"TRAIN_FAULT", "rank=2,step=6,at=gradient,do=inf"}});
  EXPECT_EQ(end.exit_code, 7) << end.output;
  EXPECT_THAT(end.output, HasSubstr("step 6 are not finite on rank 2"));
}

TEST(HookState, OfOtherBucketsIsRefused) {
  const Sandbox sandbox;
  const auto first = sandbox.run(sandbox.train(2, settings_of("power_sgd", {"train.steps=6"})));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  for (const char* rank : {"3", "1024"}) {  // with 1024 no matrix is compressed
    auto settings = settings_of("power_sgd");
    settings[3] = std::string("data_parallel.power_sgd_rank=") + rank;
    const auto other =
        sandbox.run(sandbox.train(2, settings, {"--resume", run_folder(sandbox, first)}));
    EXPECT_EQ(other.exit_code, 4) << other.output;
    EXPECT_THAT(other.output, HasSubstr("power_sgd"));
  }
}

// Gloo has no 16-bit arithmetic, and the figures do not pretend that it has.
TEST(HookBytes, AreThoseThatTravel) {
  const Sandbox sandbox;
  const auto bytes = [&](const char* backend, const char* hook) {
    const auto end = sandbox.run(sandbox.train(
        2, settings_of(hook, {"train.steps=2", std::string("comm.backend=") + backend})));
    EXPECT_EQ(end.exit_code, 0) << end.output;
    return metrics(run_folder(sandbox, end), "step").back()["reduced_bytes"].get<double>();
  };
  const double plain = bytes("ring", "none");
  EXPECT_EQ(bytes("ring", "bf16"), plain / 2);
  EXPECT_EQ(bytes("gloo", "bf16"), plain);
}

}  // namespace
}  // namespace lockstep::tests

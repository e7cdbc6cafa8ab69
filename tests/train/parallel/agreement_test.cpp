#include "train/parallel/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/parallel/toy_training.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Agreement, EqualTextsPass) {
  for (int size : {1, 4})
    run_ranks(size, [](Rank rank) {
      require_agreement(rank.context, rank.communicator, "a: 1\nb: 2\n",
                        rank.context.compute_stream());
      require_agreement(rank.context, rank.communicator, "", rank.context.compute_stream());
    });
}

// The text of one rank is another: every rank is told the same.
std::vector<std::string> messages(int size, int odd, const std::string& common,
                                  const std::string& other) {
  const auto errors = run_ranks_catching(size, [&](Rank rank) {
    require_agreement(rank.context, rank.communicator,
                      rank.communicator.rank() == odd ? other : common,
                      rank.context.compute_stream());
  });
  std::vector<std::string> texts;
  for (const auto& error : errors) texts.push_back(message_of(error));
  return texts;
}

TEST(Agreement, NamesBothSidesAndTheFirstDifferentLine) {
  for (const auto& text :
       messages(4, 2, "lr: 0.1\nseed: 1\nepochs: 3\n", "lr: 0.1\nseed: 17\nepochs: 4\n"))
    EXPECT_THAT(text, HasSubstr("rank 2 has \"seed: 17\" where rank 0 has \"seed: 1\""));
  for (const auto& text : messages(3, 0, "a: 1\n", "b: 1\n"))
    EXPECT_THAT(text, HasSubstr("rank 0 has \"b: 1\" where rank 1 has \"a: 1\""));
  for (const auto& text : messages(2, 1, "a: 1\nb: 2\n", "a: 1\n"))
    EXPECT_THAT(text, HasSubstr("rank 1 has \"nothing\" where rank 0 has \"b: 2\""));
}

// What the replicas of rank 1 and of the others were made of.
std::vector<std::string> replica_messages(const ToyProblem& problem, const ToyProblem& other) {
  const auto errors = run_ranks_catching(
      3, [&](Rank rank) { train_toy(rank, rank.communicator.rank() == 1 ? other : problem); });
  std::vector<std::string> texts;
  for (const auto& error : errors) texts.push_back(message_of(error));
  return texts;
}

ToyProblem with_hidden(std::vector<std::int64_t> hidden) {
  ToyProblem problem;
  problem.after_update = [](Rank, Replica&, std::int64_t) { ADD_FAILURE() << "a step was taken"; };
  problem.make_model = [hidden](Context& context, const ToyProblem& p) {
    return models::make_model(context, "mlp", {{"hidden", hidden}},
                              {Shape{p.features}, p.classes, p.dtype}, p.seed);
  };
  return problem;
}

TEST(Agreement, OfModelsIsRequiredBeforeAnyStep) {
  const ToyProblem problem = with_hidden({16, 8});
  for (const auto& text : replica_messages(problem, with_hidden({17, 8})))
    EXPECT_THAT(text,
                AllOf(HasSubstr("rank 1 has \"parameter hidden.0.weight: float32 [17, 12]\""),
                      HasSubstr("rank 0 has \"parameter hidden.0.weight: float32 [16, 12]\"")));
  for (const auto& text : replica_messages(problem, with_hidden({16, 8, 8})))
    EXPECT_THAT(text, HasSubstr("rank 1 has \"parameter hidden.2.weight: float32 [8, 8]\""));
  ToyProblem other = problem;
  other.dtype = DType::float64;
  for (const auto& text : replica_messages(problem, other))
    EXPECT_THAT(text, HasSubstr("float64 [16, 12]"));
}

TEST(Agreement, OfVersionConfigurationAndPlanIsRequired) {
  ToyProblem problem = with_hidden({16, 8}), other = problem;
  problem.replica.identity = "program version: 1\noptimizer.lr: 0.1\n";
  other.replica.identity = "program version: 1\noptimizer.lr: 0.2\n";
  for (const auto& text : replica_messages(problem, other))
    EXPECT_THAT(text, HasSubstr("rank 1 has \"optimizer.lr: 0.2\" where rank 0 has"));
  other = problem;
  other.replica.buckets.bucket_bytes = 512;
  for (const auto& text : replica_messages(problem, other))
    EXPECT_THAT(text, HasSubstr("rank 1 has \"bucket 0: "));
}

}  // namespace
}  // namespace lockstep::train

// Hooks in the training of replicas: the same bits on every rank after every step, whatever else is
// asked for, and no memory taken in a step.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "framework/base/hash.h"
#include "framework/nn/linear.h"
#include "tests/train/parallel/toy_training.h"
#include "train/parallel/hooks/hooks.h"

namespace lockstep::train {
namespace {

std::uint64_t digest_of(Replica& replica) {
  const Tensor& flat = replica.arena().segments()[0].parameters;
  return base::hash64({static_cast<const std::byte*>(flat.data()), flat.bytes()});
}

ToyProblem problem_with(const std::string& hook) {
  ToyProblem problem;
  problem.samples = 203;
  problem.epochs = 2;
  problem.momentum = 0.9;
  problem.replica.buckets = {.bucket_bytes = 1024, .first_bucket_bytes = 256};
  problem.replica.make_reduction = make_hook(
      hook, {.top_k_ratio = 0.1, .power_sgd_rank = 1, .power_sgd_start = 3, .seed = problem.seed});
  problem.make_model = [](Context& context, const ToyProblem& p) {
    return models::make_model(context, "mlp", {{"hidden", std::vector<std::int64_t>{24, 16}}},
                              {Shape{p.features}, p.classes, p.dtype}, p.seed);
  };
  return problem;
}

// Digests of the parameters after each step, equal on all ranks.
std::vector<std::uint64_t> train_together(int size, ToyProblem problem) {
  std::mutex mutex;
  std::map<std::int64_t, std::vector<std::uint64_t>> digests;
  problem.after_update = [&](Rank, Replica& replica, std::int64_t step) {
    const std::scoped_lock lock(mutex);
    digests[step].push_back(digest_of(replica));
  };
  run_ranks(size, [&](Rank rank) { train_toy(rank, problem); });
  std::vector<std::uint64_t> steps;
  for (const auto& [step, values] : digests) {
    EXPECT_EQ(values.size(), static_cast<std::size_t>(size));
    EXPECT_EQ(std::set<std::uint64_t>(values.begin(), values.end()).size(), 1u) << "step " << step;
    steps.push_back(values[0]);
  }
  EXPECT_EQ(steps.size(), 8u);
  return steps;
}

class HooksInTraining : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Names, HooksInTraining,
                         ::testing::Values("bf16", "fp16", "top_k", "power_sgd"));

TEST_P(HooksInTraining, KeepReplicasEqualAndRepeat) {
  for (const int size : {1, 2, 3, 4, 7}) {
    const auto digests = train_together(size, problem_with(GetParam()));
    EXPECT_EQ(train_together(size, problem_with(GetParam())), digests);
    ToyProblem plain = problem_with(GetParam());
    plain.replica.overlap = false;
    EXPECT_EQ(train_together(size, plain), digests);
    if (size > 1) {
      plain = problem_with("none");
      EXPECT_NE(train_together(size, plain), digests);  // it does something
    }
  }
}

TEST_P(HooksInTraining, WithClippingAccumulationAndFewerRowsThanRanks) {
  ToyProblem problem = problem_with(GetParam());
  problem.replica.clip_norm = 0.05;
  train_together(3, problem);
  problem.accumulate = 3;
  train_together(4, problem);
  problem.batch_size = 8;
  problem.samples = 62;  // the last batch has 6 rows for 7 ranks
  problem.epochs = 1;
  train_together(7, problem);
  ToyProblem wide = problem_with(GetParam());
  wide.dtype = DType::float64;
  train_together(2, wide);
}

class UnusedLayer final : public nn::Module {
 public:
  UnusedLayer(Context& context, const ToyProblem& problem) {
    used_ = register_module(
        "used", std::make_shared<nn::Linear>(context, problem.features, problem.classes));
    unused_ = register_module("unused", std::make_shared<nn::Linear>(context, 20, 20));
  }
  Variable forward(const Variable& x) override { return (*used_)(x); }

 private:
  std::shared_ptr<nn::Linear> used_, unused_;
};

TEST_P(HooksInTraining, LeaveUnusedParametersWhereTheyAre) {
  ToyProblem problem = problem_with(GetParam());
  problem.momentum = 0;
  problem.replica.unused_parameters = UnusedParameters::zero;
  problem.make_model = [](Context& context, const ToyProblem& p) -> std::shared_ptr<nn::Module> {
    auto model = std::make_shared<UnusedLayer>(context, p);
    model->initialize(p.seed);
    return model;
  };
  train_together(3, problem);
  std::mutex mutex;
  std::set<float> values;
  problem.after_update = [&](Rank, Replica& replica, std::int64_t) {
    const std::scoped_lock lock(mutex);
    values.insert(replica.model().named_parameters()[2].variable.value().data<float>()[7]);
  };
  run_ranks(3, [&](Rank rank) { train_toy(rank, problem); });
  EXPECT_EQ(values.size(), 1u);
}

TEST_P(HooksInTraining, ReduceOnlyInTheLastMicroBatch) {
  ToyProblem problem = problem_with(GetParam());
  std::mutex mutex;
  std::map<std::int64_t, std::set<std::uint64_t>> bytes;
  for (const std::int64_t accumulate : {1, 4}) {
    problem.accumulate = accumulate;
    problem.after_update = [&](Rank, Replica& replica, std::int64_t step) {
      const std::scoped_lock lock(mutex);
      bytes[step].insert(replica.averager().bytes_this_step());
    };
    run_ranks(2, [&](Rank rank) { train_toy(rank, problem); });
  }
  for (const auto& [step, values] : bytes) EXPECT_EQ(values.size(), 1u) << "step " << step;
}

TEST_P(HooksInTraining, TakeNoMemoryInASteadyStep) {
  ToyProblem problem = problem_with(GetParam());
  problem.samples = 64 * 12;
  problem.epochs = 1;
  std::mutex mutex;
  std::map<int, std::uint64_t> before;
  problem.after_update = [&](Rank rank, Replica&, std::int64_t step) {
    const auto requests = rank.context.allocator().statistics().source_requests;
    const std::scoped_lock lock(mutex);
    if (step == 3) before[rank.communicator.rank()] = requests;
    if (step > 3) {
      EXPECT_EQ(requests, before[rank.communicator.rank()]) << "step " << step;
    }
  };
  run_ranks(4, [&](Rank rank) { train_toy(rank, problem); });
}

}  // namespace
}  // namespace lockstep::train

#include "train/parallel/replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "framework/base/hash.h"
#include "framework/nn/linear.h"
#include "tests/train/parallel/toy_training.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

class UnusedLayer final : public nn::Module {
 public:
  UnusedLayer(Context& context, const ToyProblem& problem) {
    used_ = register_module(
        "used", std::make_shared<nn::Linear>(context, problem.features, problem.classes));
    forgotten_ = register_module("forgotten", std::make_shared<nn::Linear>(context, 3, 3));
  }
  Variable forward(const Variable& x) override { return (*used_)(x); }

 private:
  std::shared_ptr<nn::Linear> used_, forgotten_;
};

class ReplicaWorlds : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ReplicaWorlds, ::testing::Range(1, 10));

TEST_P(ReplicaWorlds, HoldTheSameBitsAfterEveryStep) {
  ToyProblem problem = small_buckets();
  problem.epochs = 1;
  problem.samples = 203;
  problem.momentum = 0.9;
  std::mutex mutex;
  std::map<std::int64_t, std::vector<std::uint64_t>> digests;
  problem.after_update = [&](Rank rank, Replica& replica, std::int64_t step) {
    require_equal_replicas(rank, replica, step);
    const Tensor& flat = replica.arena().segments()[0].parameters;
    const std::scoped_lock lock(mutex);
    digests[step].push_back(
        base::hash64({static_cast<const std::byte*>(flat.data()), flat.bytes()}));
  };
  run_ranks(GetParam(), [&](Rank rank) { train_toy(rank, problem); });
  ASSERT_EQ(digests.size(), 4u);
  for (const auto& [step, values] : digests) {
    ASSERT_EQ(values.size(), static_cast<std::size_t>(GetParam()));
    for (auto value : values) EXPECT_EQ(value, values[0]) << "step " << step;
  }
  EXPECT_NE(digests[1][0], digests[2][0]);
}

// GRAD-1: sums are formed in another order, so equal up to rounding.
TEST(Replica, AnyNumberOfWorkersComputesWhatOneDoes) {
  for (const auto& make_model : {&make_toy_mlp, &make_tied}) {
    for (const auto& [dtype, bound] :
         {std::pair{DType::float32, 1e-5}, std::pair{DType::float64, 1e-10}}) {
      ToyProblem problem = small_buckets();
      problem.dtype = dtype;
      problem.make_model = make_model;
      const auto one = train_world(1, problem);
      for (int size : {2, 3, 4, 8})
        EXPECT_LT(largest_relative_difference(one, train_world(size, problem)), bound)
            << size << " workers";
    }
  }
}

TEST(Replica, OverlapAndBucketSizesChangeNoBit) {
  ToyProblem problem = small_buckets();
  problem.epochs = 1;
  const auto reference = train_world(4, problem);
  problem.replica.overlap = false;
  EXPECT_EQ(train_world(4, problem), reference);
  problem.replica.per_bucket = false;
  EXPECT_EQ(train_world(4, problem), reference);
  problem.replica.buckets = {};
  EXPECT_EQ(train_world(4, problem), reference);
}

TEST(Replica, AccumulatedMicroBatchesEqualTheWholeBatch) {
  ToyProblem problem = small_buckets();
  problem.epochs = 1;
  const auto whole = train_world(1, problem);
  for (int size : {1, 2, 4}) {
    problem.accumulate = 4;
    EXPECT_LT(largest_relative_difference(whole, train_world(size, problem)), 1e-5)
        << size << " workers";
  }
}

TEST(Replica, AccumulationReducesEachBucketOnce) {
  ToyProblem problem = small_buckets();
  problem.epochs = 1;
  problem.accumulate = 4;
  problem.after_update = [](Rank, Replica& replica, std::int64_t) {
    EXPECT_EQ(replica.averager().reductions_this_step(), replica.averager().plan().buckets.size());
  };
  train_world(2, problem);
}

TEST(Replica, FewerSamplesThanWorkers) {
  ToyProblem problem = small_buckets();
  problem.samples = 3;
  const auto one = train_world(1, problem);
  EXPECT_LT(largest_relative_difference(one, train_world(8, problem)), 1e-5);
}

TEST(Replica, DropoutMasksBelongToSamplesNotRanks) {
  ToyProblem problem = small_buckets();
  problem.epochs = 1;
  problem.dtype = DType::float64;
  problem.make_model = [](Context& context, const ToyProblem& p) {
    return models::make_model(context, "mlp",
                              {{"hidden", std::vector<std::int64_t>{16}}, {"dropout", 0.5}},
                              {Shape{p.features}, p.classes, p.dtype}, p.seed);
  };
  const auto one = train_world(1, problem);
  EXPECT_LT(largest_relative_difference(one, train_world(4, problem)), 1e-10);
}

// A linear model on whole numbers: every sum is exact, so any lost sample or wrong factor shows.
TEST(Replica, OneStepOnWholeNumbersIsExact) {
  const auto weights_after_a_step = [](int size) {
    std::vector<float> weights;
    run_ranks(size, [&](Rank rank) {
      constexpr std::int64_t samples = 43, width = 6;
      auto linear = std::make_shared<nn::Linear>(rank.context, width, 1);
      const Tensor example = Tensor::empty(rank.context, Shape{2, width});
      kernels::kernels_for(rank.context).fill(0, example);
      Replica replica(
          rank.context, rank.communicator, linear, Variable(example),
          [](const Variable& y) { return ops::squared_error(y, y.detach().value()); },
          [](nn::ParameterArena& arena, const optim::Shard& shard) {
            return optim::make_sgd(arena, {}, shard);
          },
          {});
      for (auto& segment : replica.arena().segments())
        kernels::kernels_for(rank.context).fill(0, segment.parameters);
      const data::RowRange rows =
          data::shard(samples, rank.communicator.rank(), rank.communicator.size());
      std::vector<float> x, t;
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        for (std::int64_t f = 0; f < width; ++f)
          x.push_back(static_cast<float>((i * 7 + f * 3) % 11 - 5));
        t.push_back(static_cast<float>(i % 5 - 2));
      }
      replica.begin_update(1);
      if (rows.size() > 0) {
        const Variable y = replica.model()(Variable(Tensor::from<float>(
            rank.context, std::span<const float>(x), Shape{rows.size(), width})));
        replica.backward(ops::squared_error(
            y, Tensor::from<float>(rank.context, std::span<const float>(t), Shape{rows.size(), 1}),
            1.0 / 64));
      } else {
        replica.backward(Variable());
      }
      replica.finish_backward();
      replica.update(1.0);
      if (rank.communicator.rank() == 0) {
        const auto values = replica.arena().segments()[0].parameters.elements<float>();
        weights.assign(values.begin(), values.end());
      }
    });
    return weights;
  };
  const auto one = weights_after_a_step(1);
  EXPECT_NE(one[0], 0.0f);
  for (int size : {2, 3, 4, 8}) EXPECT_EQ(weights_after_a_step(size), one) << size << " workers";
}

TEST(Replica, ASteadyStepTakesNoMemory) {
  ToyProblem problem = small_buckets();
  problem.samples = 64 * 12;
  problem.epochs = 1;
  std::mutex mutex;
  std::map<int, std::uint64_t> after_third;
  problem.after_update = [&](Rank rank, Replica&, std::int64_t step) {
    const auto requests = rank.context.allocator().statistics().source_requests;
    const std::scoped_lock lock(mutex);
    if (step == 3) after_third[rank.communicator.rank()] = requests;
    if (step > 3) {
      EXPECT_EQ(requests, after_third[rank.communicator.rank()]) << "step " << step;
    }
  };
  train_world(4, problem);
}

TEST(Replica, AnUnusedParameterIsNamedBeforeAnyUpdate) {
  ToyProblem problem;
  problem.make_model = [](Context& context, const ToyProblem& p) -> std::shared_ptr<nn::Module> {
    auto model = std::make_shared<UnusedLayer>(context, p);
    model->initialize(p.seed);
    return model;
  };
  problem.after_update = [](Rank, Replica&, std::int64_t) {
    ADD_FAILURE() << "an update took place";
  };
  const auto errors = run_ranks_catching(4, [&](Rank rank) { train_toy(rank, problem); });
  bool named = false;
  for (const auto& error : errors) {
    EXPECT_TRUE(error);
    named |= message_of(error).find("'forgotten.") != std::string::npos;
  }
  EXPECT_TRUE(named);
}

TEST(Replica, AnUnusedParameterStaysWhereItIsWhenAskedTo) {
  ToyProblem problem;
  problem.epochs = 1;
  problem.momentum = 0.9;
  problem.replica.unused_parameters = UnusedParameters::zero;
  problem.make_model = [](Context& context, const ToyProblem& p) -> std::shared_ptr<nn::Module> {
    auto model = std::make_shared<UnusedLayer>(context, p);
    model->initialize(p.seed);
    return model;
  };
  std::mutex mutex;
  std::map<std::int64_t, std::set<float>> values;
  problem.after_update = [&](Rank rank, Replica& replica, std::int64_t step) {
    require_equal_replicas(rank, replica, step);
    const std::scoped_lock lock(mutex);
    for (const auto& parameter : replica.model().named_parameters())
      if (parameter.name == "forgotten.weight")
        values[0].insert(parameter.variable.value().data<float>()[4]);
  };
  train_world(4, problem);
  EXPECT_EQ(values[0].size(), 1u);
}

TEST(Replica, ClippingBoundsTheNormOfTheWholeGradient) {
  ToyProblem problem = small_buckets();
  problem.dtype = DType::float64;
  problem.epochs = 1;
  problem.samples = 64;
  problem.lr = 1;
  const auto before = [&] {
    ToyProblem none = problem;
    none.lr = 0;
    return train_world(1, none);
  }();
  for (int size : {1, 3}) {
    problem.replica.clip_norm = 0.01;
    const auto after = train_world(size, problem);
    double squares = 0;
    for (std::size_t i = 0; i < after.size(); ++i)
      squares += (after[i] - before[i]) * (after[i] - before[i]);
    EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-12) << size << " workers";
  }
  problem.replica.clip_norm = 1e6;
  const auto unclipped = train_world(2, problem);
  problem.replica.clip_norm.reset();
  EXPECT_EQ(train_world(2, problem), unclipped);
}

TEST(Replica, RanksWithDifferentModelsAreToldApart) {
  ToyProblem problem;
  const auto errors = run_ranks_catching(4, [&](Rank rank) {
    ToyProblem mine = problem;
    if (rank.communicator.rank() == 2)
      mine.make_model = [](Context& context, const ToyProblem& p) {
        return models::make_model(context, "mlp", {{"hidden", std::vector<std::int64_t>{17, 8}}},
                                  {Shape{p.features}, p.classes, p.dtype}, p.seed);
      };
    train_toy(rank, mine);
  });
  for (const auto& error : errors) EXPECT_THAT(message_of(error), HasSubstr("rank 2"));
}

TEST(Replica, StartsFromTheParametersOfRankZero) {
  ToyProblem problem;
  problem.epochs = 1;
  const auto expected = train_world(1, problem);
  std::vector<double> found;
  run_ranks(4, [&](Rank rank) {
    ToyProblem mine = problem;
    mine.make_model = [&](Context& context, const ToyProblem& p) {
      ToyProblem other = p;
      other.seed += static_cast<std::uint64_t>(rank.communicator.rank());
      return make_toy_mlp(context, other);
    };
    const auto result = train_toy(rank, mine);
    if (rank.communicator.rank() == 3) found = result.parameters;
  });
  EXPECT_LT(largest_relative_difference(expected, found), 1e-5);
}

}  // namespace
}  // namespace lockstep::train

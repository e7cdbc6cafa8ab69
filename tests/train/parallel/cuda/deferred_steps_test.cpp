// Steps whose results the host reads late, launched as graphs: what they allocate, what is read,
// and that a step which fails leaves the parameters of the steps behind it alone.
#include "train/deferred_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "framework/base/error.h"
#include "tests/train/parallel/toy_training.h"
#include "train/parallel/host_view.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t rows = 4;

// A rank that trains a small network on the same batch again and again.
class Trainee {
 public:
  explicit Trainee(Rank rank, const ToyProblem& problem = small_buckets())
      : rank_(rank),
        replica_(make_toy_replica(rank, problem)),
        counter_(rank.context),
        config_(make_config()),
        micro_batches_(config_, rank.context, *replica_, counter_),
        steps_(rank.context, *replica_, counter_, micro_batches_, {}, log_) {
    batch_.features = Tensor::empty(rank.context, {rows, problem.features}, DType::float32);
    kernels::kernels_for(rank.context).fill(1 + rank.communicator.rank(), batch_.features);
    batch_.labels = Tensor::from<std::int64_t>(rank.context, {0, 1, 2, 3}, {rows});
    batch_.rows = rows;
    batch_.first_row = rows * rank.communicator.rank();
    batch_.global_rows = rows * rank.communicator.size();
  }

  void enqueue(double stop_requests = 0) {
    replica_->begin_step(++step_);
    steps_.enqueue({.step = step_, .lr = 0.1, .stop_requests = stop_requests}, batch_);
  }
  void undo(const DeferredSteps::Start& read) {
    steps_.undo(read);
    step_ = read.step - 1;
  }
  DeferredSteps& steps() { return steps_; }
  const data::Batch& batch() const { return batch_; }
  device::CachingAllocator& allocator() { return rank_.context.allocator(); }
  std::vector<float> parameters() {
    const HostView view(replica_->arena().segments().front().parameters);
    const auto values = view.values<float>();
    return {values.begin(), values.end()};
  }

 private:
  static Config make_config() {
    Config config;
    config.seed = 7;
    return config;
  }

  Rank rank_;
  std::unique_ptr<Replica> replica_;
  LossCounter counter_;
  Config config_;
  MicroBatches micro_batches_;
  data::Batch batch_;
  std::int64_t step_ = 0;
  const Log log_ = Log::silent();
  DeferredSteps steps_;
};

TEST(DeferredSteps, AreReadOneAfterTheOther) {
  run_ranks(3, [](Rank rank) {
    Trainee trainee(rank);
    double before = std::numeric_limits<double>::max();
    for (int step = 1; step <= 9; ++step) {
      trainee.enqueue(step == 7 && rank.communicator.rank() == 1 ? 1 : 0);
      if (step == 1) continue;
      EXPECT_EQ(trainee.steps().pending(), 2u);
      const auto result = trainee.steps().read();
      EXPECT_EQ(result.start.step, step - 1);
      EXPECT_TRUE(result.is_finite);
      EXPECT_EQ(result.record.summary.targets, 3 * rows);
      EXPECT_LT(result.record.summary.loss_sum, before);
      EXPECT_EQ(result.record.summary.stop_requests, result.start.step == 7 ? 1 : 0);
      EXPECT_GT(result.record.parts.communication, 0);
      EXPECT_NEAR(
          result.record.parts.compute + result.record.parts.exposed + result.record.parts.data_wait,
          result.record.parts.step, 1e-9);
      EXPECT_LE(result.record.parts.exposed, result.record.parts.communication);
      EXPECT_GT(result.record.reduced_bytes, 0u);
      before = result.record.summary.loss_sum;
    }
    trainee.steps().discard();
    EXPECT_EQ(trainee.steps().pending(), 0u);
  });
}

TEST(DeferredSteps, TakeNoMemoryOnceTheyAreLaunched) {
  run_ranks(2, [](Rank rank) {
    Trainee trainee(rank);
    for (int step = 0; step < 4; ++step) {
      trainee.enqueue();
      trainee.steps().read();
    }
    const auto before = trainee.allocator().statistics();
    for (int step = 0; step < 5; ++step) {
      trainee.enqueue();
      trainee.steps().read();
    }
    EXPECT_EQ(trainee.allocator().statistics().requests, before.requests);
  });
}

// Some steps are launched already when the values of one turn out not to be finite.
TEST(DeferredSteps, ChangeNothingBehindOneThatIsNotFinite) {
  run_ranks(2, [](Rank rank) {
    Trainee trainee(rank);
    for (int step = 0; step < 4; ++step) {
      trainee.enqueue();
      trainee.steps().read();
    }
    const kernels::Kernels& kernels = kernels::kernels_for(rank.context);
    if (rank.communicator.rank() == 1)
      kernels.fill(std::numeric_limits<double>::quiet_NaN(), trainee.batch().features);
    trainee.enqueue();
    const std::vector<float> spoilt = trainee.parameters();
    kernels.fill(1, trainee.batch().features);
    trainee.enqueue();
    EXPECT_FALSE(trainee.steps().read().is_finite);
    trainee.steps().discard();
    EXPECT_EQ(trainee.parameters(), spoilt);
    for (const float value : spoilt) EXPECT_TRUE(std::isfinite(value));
  });
}

// A step whose gradients are not finite, and one behind it, are taken back: what follows has the
// bits that it has without them.
TEST(DeferredSteps, AreAsIfNeverEnqueuedOnceTheyAreUndone) {
  ToyProblem problem = small_buckets();
  problem.adam = true;
  problem.replica.skip_nonfinite = true;
  for (const bool sharded : {false, true}) {
    problem.replica.shard_optimizer = sharded;
    run_ranks(3, [&](Rank rank) {
      const kernels::Kernels& kernels = kernels::kernels_for(rank.context);
      const bool is_first = rank.communicator.rank() == 0;
      const auto train = [&](bool fails) {
        Trainee trainee(rank, problem);
        for (int step = 1; step <= 6; ++step) {
          if (fails && step == 5) {
            if (is_first)
              kernels.fill(std::numeric_limits<double>::quiet_NaN(), trainee.batch().features);
            trainee.enqueue();
            if (is_first) kernels.fill(1, trainee.batch().features);
            trainee.enqueue();
            const auto result = trainee.steps().read();
            EXPECT_FALSE(result.is_finite);
            trainee.steps().discard();
            trainee.undo(result.start);
          }
          trainee.enqueue();
          EXPECT_TRUE(trainee.steps().read().is_finite) << "step " << step;
        }
        return trainee.parameters();
      };
      EXPECT_EQ(train(true), train(false));
    });
  }
}

// A rank is lost in the middle: the others' updates wait for its gradients, which never come, and
// then do nothing, in that step and in the next, which is on its way.
TEST(DeferredSteps, ChangeNothingWhereACollectiveFailed) {
  run_ranks(3,
            [](Rank rank) {
              Trainee trainee(rank);
              for (int step = 0; step < 5; ++step) {
                trainee.enqueue();
                trainee.steps().read();
              }
              if (rank.communicator.rank() == 2) return;
              const std::vector<float> before = trainee.parameters();
              trainee.enqueue();
              trainee.enqueue();
              try {
                trainee.steps().read();
                ADD_FAILURE() << "nothing was thrown";
              } catch (const RankError& error) {
                EXPECT_EQ(error.rank(), 2);
                EXPECT_THAT(error.what(), HasSubstr("rank 2 did not arrive"));
              }
              trainee.steps().discard();
              EXPECT_EQ(trainee.parameters(), before);
            },
            {.timeout = std::chrono::seconds(2)});
}

TEST(DeferredSteps, NameATargetThatIsNoClass) {
  run_ranks(1, [](Rank rank) {
    Trainee trainee(rank);
    for (int step = 0; step < 4; ++step) {
      trainee.enqueue();
      trainee.steps().read();
    }
    kernels::kernels_for(rank.context).fill(9, trainee.batch().labels);
    trainee.enqueue();
    EXPECT_THROW(trainee.steps().read(), DataError);
  });
}

}  // namespace
}  // namespace lockstep::train

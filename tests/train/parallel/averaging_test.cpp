// What happens between the backward pass and the collectives, as a communication hook sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "framework/base/hash.h"
#include "tests/train/parallel/toy_training.h"

namespace lockstep::train {
namespace {

// The plain sum, telling a function of every bucket before it travels.
class Observed final : public comm::BucketReduction {
 public:
  using Observer = std::function<void(std::size_t bucket, const comm::Range& gradients)>;
  Observed(comm::Communicator& communicator, Observer observer)
      : sum_(communicator), observer_(std::move(observer)) {}
  std::string_view name() const override { return "observed"; }
  Started reduce(std::size_t bucket, comm::Range gradients, Stream& stream) override {
    observer_(bucket, gradients);
    return sum_.reduce(bucket, gradients, stream);
  }

 private:
  comm::AllReduction sum_;
  Observer observer_;
};

std::shared_ptr<nn::Module> make_wide(Context& context, const ToyProblem& problem) {
  auto model = std::make_shared<nn::Linear>(context, problem.features, problem.classes,
                                            nn::LinearOptions{.dtype = problem.dtype});
  model->initialize(problem.seed);
  return model;
}

// The tail that nothing hides: when the gradient that is computed last is there, all buckets but
// one are under way, however large the tensor is that it belongs to.
TEST(Averaging, NoMoreThanOneBucketIsLeftForTheEnd) {
  ToyProblem problem;
  problem.features = 784;
  problem.classes = 2048;  // one weight of 6 MiB
  problem.replica.buckets = {.bucket_bytes = 1 << 20, .first_bucket_bytes = 1 << 20};
  problem.make_model = make_wide;
  run_ranks(2, [&](Rank rank) {
    ToyProblem mine = problem;
    const float* last = nullptr;  // the element of the gradient that is computed last
    std::vector<bool> was_computed;
    mine.replica.make_reduction = [&](comm::Communicator& communicator,
                                      const nn::ParameterArena& arena, const comm::BucketPlan&) {
      const auto& segment = arena.segments()[0];
      last = segment.gradients.data<float>() + segment.entries.back().end - 1;
      return std::make_unique<Observed>(communicator, [&](std::size_t, const comm::Range&) {
        was_computed.push_back(!std::isnan(*last));
      });
    };
    const auto replica = make_toy_replica(rank, mine);
    const auto buckets = replica->averager().plan().buckets.size();
    ASSERT_GE(buckets, 6u);
    kernels::kernels_for(rank.context).fill(NAN, replica->arena().segments()[0].gradients);
    const Tensor x = Tensor::empty(rank.context, Shape{4, problem.features}),
                 labels = Tensor::empty(rank.context, Shape{4}, DType::int64);
    fill_batch<float>(problem, {0, 4}, 0, x, labels);
    replica->begin_update(1);
    replica->backward(ops::cross_entropy(replica->model()(Variable(x)), labels).loss_sum);
    EXPECT_EQ(was_computed.size(), buckets);
    replica->finish_backward();
    replica->update(0.1);
    std::vector<bool> expected(buckets, false);
    expected.back() = true;
    EXPECT_EQ(was_computed, expected);
  });
}

// Gradients are born where they travel from: what collectives are given is the gradient buffer
// itself, every byte of it once, and parameters' gradients are views of it.
TEST(Averaging, MovesNoByteButInTheCollectives) {
  for (const bool overlap : {true, false}) {
    run_ranks(3, [&](Rank rank) {
      ToyProblem problem = small_buckets();
      problem.epochs = 1;
      problem.replica.overlap = overlap;
      std::uint64_t given = 0;
      problem.replica.make_reduction = [&](comm::Communicator& communicator,
                                           const nn::ParameterArena& arena,
                                           const comm::BucketPlan& plan) {
        const float* flat = arena.segments()[0].gradients.data<float>();
        return std::make_unique<Observed>(
            communicator,
            [&given, flat, buckets = plan.buckets](std::size_t b, const comm::Range& range) {
              EXPECT_EQ(range.data, flat + buckets[b].begin);
              EXPECT_EQ(range.count, buckets[b].count());
              given += range.bytes();
            });
      };
      problem.after_update = [&](Rank, Replica& replica, std::int64_t) {
        EXPECT_EQ(given, replica.averager().bytes_this_step());
        const auto& segment = replica.arena().segments()[0];
        std::size_t padding = segment.gradients.bytes();
        for (const auto& entry : segment.entries) {
          EXPECT_EQ(entry.parameter.grad().data(), segment.gradients.data<float>() + entry.begin);
          padding -= entry.parameter.grad().bytes();
        }
        EXPECT_GE(given + padding, segment.gradients.bytes());
        EXPECT_LE(given, segment.gradients.bytes());
        given = 0;
      };
      train_toy(rank, problem);
    });
  }
}

// Of an accumulation only the last micro-batch sends anything.
TEST(Averaging, MicroBatchesButTheLastSendNothing) {
  run_ranks(2, [&](Rank rank) {
    ToyProblem problem = small_buckets();
    std::size_t launched = 0;
    problem.replica.make_reduction = [&](comm::Communicator& communicator, auto&&...) {
      return std::make_unique<Observed>(communicator,
                                        [&](std::size_t, const comm::Range&) { ++launched; });
    };
    const auto replica = make_toy_replica(rank, problem);
    const Tensor x = Tensor::empty(rank.context, Shape{4, problem.features}),
                 labels = Tensor::empty(rank.context, Shape{4}, DType::int64);
    fill_batch<float>(problem, {0, 4}, 0, x, labels);
    for (int step = 1; step <= 3; ++step) {
      launched = 0;
      replica->begin_update(step, 4);
      for (int part = 0; part < 4; ++part) {
        EXPECT_EQ(launched, 0u);
        EXPECT_EQ(replica->averager().bytes_this_step(), 0u);
        replica->backward(ops::cross_entropy(replica->model()(Variable(x)), labels).loss_sum);
      }
      replica->finish_backward();
      EXPECT_EQ(launched, replica->averager().plan().buckets.size());
      replica->update(0.1);
    }
  });
}

TEST(Averaging, ClippingByValueBoundsEveryElement) {
  ToyProblem problem = small_buckets();
  problem.dtype = DType::float64;
  problem.epochs = 1;
  problem.samples = 64;
  problem.lr = 1;
  const auto gradient = [&](int size, std::optional<double> limit) {
    ToyProblem still = problem;
    still.lr = 0;
    auto before = train_world(size, still);
    problem.replica.clip_value = limit;
    const auto after = train_world(size, problem);
    for (std::size_t i = 0; i < before.size(); ++i) before[i] -= after[i];
    return before;
  };
  const auto free = gradient(1, std::nullopt);
  const double limit = 0.003;
  std::size_t clipped = 0;
  for (const double g : free) clipped += std::abs(g) > limit ? 1 : 0;
  ASSERT_GT(clipped, 10u);
  ASSERT_LT(clipped, free.size() - 10);
  for (const int size : {1, 3}) {
    const auto bound = gradient(size, limit);
    for (std::size_t i = 0; i < free.size(); ++i)
      ASSERT_NEAR(bound[i], std::clamp(free[i], -limit, limit), 1e-12) << size << " workers";
  }
}

TEST(Averaging, LeavesReplicasEqualAfterEveryStepWhateverIsAsked) {
  std::vector<std::pair<const char*, ToyProblem>> problems;
  const auto add = [&](const char* name, auto change) {
    ToyProblem problem = small_buckets();
    problem.samples = 203;  // batches of 64, the last of 11: less than a row for some ranks
    problem.epochs = 1;
    problem.momentum = 0.9;
    change(problem);
    problems.emplace_back(name, problem);
  };
  add("accumulation", [](ToyProblem& p) { p.accumulate = 5; });
  add("clip_norm", [](ToyProblem& p) { p.replica.clip_norm = 0.01; });
  add("clip_value", [](ToyProblem& p) { p.replica.clip_value = 1e-3; });
  add("adam", [](ToyProblem& p) { p.adam = true; });
  add("no overlap", [](ToyProblem& p) { p.replica.overlap = false; });
  add("updates at the end", [](ToyProblem& p) { p.replica.per_bucket = false; });
  add("tied weights", [](ToyProblem& p) { p.make_model = make_tied; });
  for (auto& [name, problem] : problems) {
    std::mutex mutex;
    std::size_t steps = 0;
    problem.after_update = [&](Rank rank, Replica& replica, std::int64_t step) {
      require_equal_replicas(rank, replica, step);
      const std::scoped_lock lock(mutex);
      ++steps;
    };
    run_ranks(12, [&, &problem = problem](Rank rank) { train_toy(rank, problem); });
    EXPECT_EQ(steps, 4u * 12u) << name;
  }
}

// A layer that is frozen in the middle of a run stays as it is, momentum or not, holds up no
// bucket, and trains on when it is released.
TEST(Averaging, ParametersMayBeFrozenDuringTheRun) {
  std::vector<std::vector<double>> results;
  for (const auto& [size, shards] : {std::pair{1, false}, {3, false}, {3, true}}) {
    ToyProblem problem = small_buckets();
    problem.samples = 64 * 6;
    problem.epochs = 1;
    problem.momentum = 0.9;
    problem.replica.shard_optimizer = shards;
    std::mutex mutex;
    std::map<int, std::map<std::int64_t, std::string>> digests;  // by rank and step
    problem.after_update = [&](Rank rank, Replica& replica, std::int64_t step) {
      require_equal_replicas(rank, replica, step);
      EXPECT_EQ(replica.averager().reductions_this_step(),
                replica.averager().plan().buckets.size());
      Variable weight;
      for (const auto& parameter : replica.model().named_parameters())
        if (parameter.name == "hidden.1.weight") weight = parameter.variable;
      const Tensor& value = weight.value();
      const auto digest =
          base::digest({static_cast<const std::byte*>(value.data()), value.bytes()});
      weight.set_requires_grad(step < 2 || step >= 4);  // frozen in steps 3 and 4
      const std::scoped_lock lock(mutex);
      digests[rank.communicator.rank()][step] = digest;
    };
    results.push_back(train_world(size, problem));
    for (const auto& [rank, of] : digests) {
      EXPECT_NE(of.at(1), of.at(2));
      EXPECT_EQ(of.at(2), of.at(3));
      EXPECT_EQ(of.at(3), of.at(4));
      EXPECT_NE(of.at(4), of.at(5));
    }
  }
  EXPECT_LT(largest_relative_difference(results[0], results[1]), 1e-5);
  EXPECT_EQ(results[1], results[2]);
}

TEST(Averaging, FrozenParametersHoldUpNoBucket) {
  run_ranks(2, [](Rank rank) {
    ToyProblem problem = small_buckets();
    std::size_t launched = 0;
    problem.replica.make_reduction = [&](comm::Communicator& communicator, auto&&...) {
      return std::make_unique<Observed>(communicator,
                                        [&](std::size_t, const comm::Range&) { ++launched; });
    };
    const auto replica = make_toy_replica(rank, problem);
    replica->model().named_parameters()[5].variable.set_requires_grad(false);
    const Tensor x = Tensor::empty(rank.context, Shape{4, problem.features}),
                 labels = Tensor::empty(rank.context, Shape{4}, DType::int64);
    fill_batch<float>(problem, {0, 4}, 0, x, labels);
    replica->begin_update(1);
    replica->backward(ops::cross_entropy(replica->model()(Variable(x)), labels).loss_sum);
    EXPECT_EQ(launched, replica->averager().plan().buckets.size());
    replica->finish_backward();
    replica->update(0.1);
  });
}

// With one worker there is nobody to talk to, and without overlap nothing to do meanwhile.
TEST(Averaging, HasAThreadOfItsOwnOnlyToOverlap) {
  for (const auto& [size, overlap, is_inline] :
       {std::tuple{1, true, true}, {2, false, true}, {2, true, false}})
    run_ranks(size, [&, overlap = overlap, is_inline = is_inline](Rank rank) {
      ToyProblem problem = small_buckets();
      problem.replica.overlap = overlap;
      const auto replica = make_toy_replica(rank, problem);
      EXPECT_EQ(replica->communication_stream().is_inline(), is_inline);
      replica->communicator().barrier(replica->communication_stream()).wait();
    });
}

}  // namespace
}  // namespace lockstep::train

#include "train/parallel/sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "tests/train/parallel/toy_training.h"
#include "train/checkpoint.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

ToyProblem sharded(ToyProblem problem) {
  problem.replica.shard_optimizer = true;
  problem.after_update = require_equal_replicas;
  return problem;
}

ToyProblem one_epoch() {
  ToyProblem problem = small_buckets();
  problem.samples = 331;  // batches of 64, the last of 11
  problem.epochs = 1;
  problem.momentum = 0.9;
  return problem;
}

// Its own reduction order apart, a ring: slices end where all-reduce's chunks do not.
TEST(Sharding, ChangesNoBit) {
  for (const char* algorithm : {"auto", "one_shot", "two_shot"})
    for (int size : {1, 2, 3, 4, 8}) {
      const comm::CommunicatorOptions options{.algorithm = algorithm};
      for (const bool adam : {false, true}) {
        ToyProblem problem = one_epoch();
        problem.adam = adam;
        EXPECT_EQ(train_world(size, sharded(problem), options), train_world(size, problem, options))
            << algorithm << ", " << size << " workers, " << (adam ? "adam" : "sgd");
      }
    }
}

TEST(Sharding, ChangesNoBitWithWhateverElseIsAsked) {
  std::vector<std::pair<const char*, ToyProblem>> problems;
  const auto add = [&](const char* name, auto change) {
    ToyProblem problem = one_epoch();
    change(problem);
    problems.emplace_back(name, problem);
  };
  add("clip_norm", [](ToyProblem& p) { p.replica.clip_norm = 0.01; });
  add("clip_value", [](ToyProblem& p) { p.replica.clip_value = 1e-3; });
  add("accumulate", [](ToyProblem& p) { p.accumulate = 4; });
  add("no overlap", [](ToyProblem& p) { p.replica.overlap = false; });
  add("one bucket", [](ToyProblem& p) { p.replica.buckets = {}; });
  add("float64", [](ToyProblem& p) { p.dtype = DType::float64; });
  add("tied weights", [](ToyProblem& p) { p.make_model = make_tied; });
  add("fewer samples than ranks", [](ToyProblem& p) { p.samples = 2; });
  for (const auto& [name, problem] : problems)
    EXPECT_EQ(train_world(3, sharded(problem)), train_world(3, problem)) << name;
}

TEST(Sharding, EachRankHasItsShareOfTheState) {
  constexpr int size = 4;
  ToyProblem problem = one_epoch();
  problem.adam = true;
  std::mutex mutex;
  std::vector<std::int64_t> elements;
  std::int64_t whole = 0;
  run_ranks(size, [&](Rank rank) {
    const auto replica = make_toy_replica(rank, sharded(problem));
    const std::scoped_lock lock(mutex);
    whole = 0;
    for (const auto& bucket : replica->averager().plan().buckets) whole += bucket.count();
    ASSERT_EQ(replica->optimizer().state().size(), 2u);
    for (const auto& state : replica->optimizer().state())
      elements.push_back(state.segments[0].count());
  });
  std::int64_t sum = 0;
  for (const std::int64_t count : elements) {
    sum += count;
    EXPECT_NEAR(static_cast<double>(count), static_cast<double>(whole) / size, 10);
  }
  EXPECT_EQ(sum, 2 * whole);
}

// What is not finite on one rank alone ends in the same decision on all, before any update.
TEST(Sharding, GradientsThatAreNotFiniteUpdateNothing) {
  const auto problem = sharded(one_epoch());
  run_ranks(3, [&](Rank rank) {
    const auto replica = make_toy_replica(rank, problem);
    const auto digest = weights_digest(replica->arena());
    const Tensor x = Tensor::empty(rank.context, Shape{4, problem.features});
    kernels::kernels_for(rank.context).fill(rank.communicator.rank() == 1 ? INFINITY : 1, x);
    const Tensor labels = Tensor::empty(rank.context, Shape{4}, DType::int64);
    kernels::kernels_for(rank.context).fill(1, labels);
    replica->begin_update(1);
    replica->backward(ops::cross_entropy(replica->model()(Variable(x)), labels).loss_sum);
    replica->finish_backward();
    EXPECT_FALSE(replica->update(0.1));
    EXPECT_EQ(weights_digest(replica->arena()), digest);
  });
}

TEST(Sharding, ASteadyStepTakesNoMemory) {
  ToyProblem problem = one_epoch();
  problem.samples = 64 * 12;
  problem.replica.clip_norm = 0.5;
  problem.adam = true;
  std::mutex mutex;
  std::map<int, std::uint64_t> after_third;
  problem.replica.shard_optimizer = true;
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

TEST(Sharding, OptionsThatExcludeEachOtherAreRefused) {
  ToyProblem hooked = sharded(one_epoch());
  hooked.replica.make_reduction = [](comm::Communicator& communicator, auto&&...) {
    return std::make_unique<comm::AllReduction>(communicator);
  };
  ToyProblem clipped = one_epoch();
  clipped.replica.clip_norm = clipped.replica.clip_value = 1;
  for (const auto& [problem, message] :
       {std::pair{hooked, "communication hook"}, std::pair{clipped, "clip_value"}}) {
    const auto errors = run_ranks_catching(2, [&](Rank rank) { make_toy_replica(rank, problem); });
    for (const auto& error : errors) EXPECT_THAT(message_of(error), HasSubstr(message));
  }
}

class ShardedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-sharding-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/checkpoint.h5"; }

  // Trains `steps` on one batch that every rank takes a part of; the digests are rank 0's.
  static void train(Rank rank, Replica& replica, const ToyProblem& problem, std::int64_t steps) {
    for (std::int64_t step = 1; step <= steps; ++step) {
      const auto rows = data::shard(32, rank.communicator.rank(), rank.communicator.size());
      const Tensor x = Tensor::empty(rank.context, Shape{rows.size(), problem.features}),
                   labels = Tensor::empty(rank.context, Shape{rows.size()}, DType::int64);
      fill_batch<float>(problem, rows, 0, x, labels);
      replica.begin_update(step);
      replica.backward(ops::cross_entropy(replica.model()(Variable(x)), labels, 1.0 / 32).loss_sum);
      replica.finish_backward();
      replica.update(0.1);
    }
  }
  struct Digests {
    std::string weights, optimizer;
    bool operator==(const Digests&) const = default;
  };
  // Loads the checkpoint, if there is one, trains and saves. Returns the digests before and after.
  std::vector<Digests> run(int size, ToyProblem problem, std::int64_t steps) const {
    problem.adam = true;
    std::vector<Digests> digests;
    run_ranks(size, [&](Rank rank) {
      const auto replica = make_toy_replica(rank, problem);
      const auto note = [&] {
        const OptimizerState state = replica->gather_optimizer_state();
        if (rank.communicator.rank() == 0)
          digests.push_back(
              {weights_digest(replica->arena()), optimizer_digest(replica->arena(), state)});
        return state;
      };
      if (std::filesystem::exists(path())) load_checkpoint(path(), *replica);
      note();
      train(rank, *replica, problem, steps);
      const OptimizerState state = note();
      if (rank.communicator.rank() == 0)
        save_checkpoint(path(), *replica, state, {.world_size = size}, "");
      replica->communicator().barrier(replica->communication_stream()).wait();
    });
    return digests;
  }

 private:
  std::string folder_;
};

TEST_F(ShardedCheckpoint, IsWholeAndServesAnyWorld) {
  const ToyProblem plain = one_epoch(), shards = sharded(plain);
  const Digests saved = run(4, shards, 5)[1];
  const auto copy = path() + ".copy";
  std::filesystem::copy_file(path(), copy);
  for (const auto& [size, problem] :
       {std::pair{4, shards}, std::pair{3, shards}, std::pair{1, shards}, std::pair{2, plain}}) {
    std::filesystem::copy_file(copy, path(), std::filesystem::copy_options::overwrite_existing);
    const Digests loaded = run(size, problem, 0)[0];
    EXPECT_EQ(loaded, saved) << size << " workers";
  }
  std::filesystem::remove(path());
  run(4, shards, 3);
  const Digests resumed = run(4, shards, 2)[1];
  EXPECT_EQ(resumed, saved);
  // Without sharding the same state is reached.
  std::filesystem::remove(path());
  EXPECT_EQ(run(4, plain, 5)[1], saved);
}

}  // namespace
}  // namespace lockstep::train

#include "train/parallel/buffers.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <mutex>

#include "framework/nn/batch_norm.h"
#include "tests/train/parallel/toy_training.h"

namespace lockstep::train {
namespace {

// The running means of a norm of one feature on every rank, after `use`.
using Use = std::function<void(Rank, ModelBuffers&, nn::BatchNorm1d&)>;

std::vector<double> means_after(int size, BufferPolicy policy, const Use& use) {
  std::vector<double> means(static_cast<std::size_t>(size));
  run_ranks(size, [&](Rank rank) {
    nn::BatchNorm1d norm(rank.context, 1, {.dtype = DType::float64});
    ModelBuffers buffers(rank.context, rank.communicator, norm, policy);
    use(rank, buffers, norm);
    means[static_cast<std::size_t>(rank.communicator.rank())] = norm.running_mean().item<double>();
  });
  return means;
}

void set(nn::BatchNorm1d& norm, double value) {
  *norm.running_mean().data<double>() = value;
}

TEST(ModelBuffers, BroadcastTakesThoseOfRankZero) {
  const auto means =
      means_after(4, BufferPolicy::broadcast, [](Rank rank, ModelBuffers& buffers, auto& norm) {
        Stream& stream = rank.context.compute_stream();
        buffers.begin(1);
        set(norm, 3 + rank.communicator.rank());
        buffers.start(2, 8, stream);
        buffers.end();
        EXPECT_EQ(norm.running_mean().template item<double>(), 3 + rank.communicator.rank());
        buffers.synchronize(stream);
      });
  EXPECT_EQ(means, (std::vector<double>{3, 3, 3, 3}));
}

// Rank 2 has no rows, and what it holds counts for nothing.
TEST(ModelBuffers, AverageWeighsByRows) {
  const auto means =
      means_after(3, BufferPolicy::average, [](Rank rank, ModelBuffers& buffers, auto& norm) {
        const int r = rank.communicator.rank();
        buffers.begin(1);
        set(norm, r == 0 ? 4 : r == 1 ? 8 : 100);
        buffers.start(r == 0 ? 3 : r == 1 ? 1 : 0, 4, rank.context.compute_stream());
        buffers.end();
      });
  EXPECT_EQ(means, (std::vector<double>{5, 5, 5}));
}

TEST(ModelBuffers, AnUpdateThatIsNotUsedLeavesNoTrace) {
  for (const BufferPolicy policy : {BufferPolicy::broadcast, BufferPolicy::average}) {
    const auto means = means_after(2, policy, [](Rank rank, ModelBuffers& buffers, auto& norm) {
      set(norm, 7);
      buffers.begin(1);
      set(norm, std::numeric_limits<double>::quiet_NaN());
      buffers.start(1, 2, rank.context.compute_stream());
      buffers.end();
      buffers.undo(1);
    });
    EXPECT_EQ(means, (std::vector<double>{7, 7}));
  }
}

// As when a second one was enqueued before the host learnt of the first.
TEST(ModelBuffers, TheLastTwoUpdatesCanBeUndone) {
  for (const std::int64_t first : {5, 6}) {
    const auto means =
        means_after(1, BufferPolicy::broadcast, [&](Rank, auto& buffers, auto& norm) {
          for (int more = 0; more < 3; ++more) {
            set(norm, more);
            buffers.begin(first - 1 + more);
          }
          buffers.undo(first);
        });
    EXPECT_EQ(means, std::vector<double>{1});
  }
}

TEST(ModelBuffers, NoRowsAnywhereChangeNothing) {
  const auto means =
      means_after(2, BufferPolicy::average, [](Rank rank, ModelBuffers& buffers, auto& norm) {
        set(norm, 7);
        buffers.begin(1);
        buffers.start(0, 0, rank.context.compute_stream());
        buffers.end();
      });
  EXPECT_EQ(means, (std::vector<double>{7, 7}));
}

// Parameters of a model with batch norm stay equal after every step, and so do averaged buffers.
TEST(ModelBuffers, OfAModelInTrainingAreEqualAfterEveryStep) {
  ToyProblem problem;
  problem.epochs = 1;
  problem.replica.buffers = BufferPolicy::average;
  problem.make_model = [](Context& context, const ToyProblem& p) {
    return models::make_model(context, "mlp",
                              {{"hidden", std::vector<std::int64_t>{16, 8}}, {"batch_norm", true}},
                              {Shape{p.features}, p.classes, p.dtype}, p.seed);
  };
  std::mutex mutex;
  std::map<std::int64_t, std::vector<float>> values;
  problem.after_update = [&](Rank, Replica& replica, std::int64_t step) {
    replica.buffers().start(16, 64, replica.communication_stream());
    replica.buffers().end();
    const std::scoped_lock lock(mutex);
    values[step].push_back(replica.model().named_buffers()[1].tensor.data<float>()[3]);
  };
  run_ranks(4, [&](Rank rank) { train_toy(rank, problem); });
  ASSERT_EQ(values.size(), 16u);
  for (const auto& [step, of_ranks] : values)
    for (const float value : of_ranks) EXPECT_EQ(value, of_ranks[0]) << "step " << step;
  EXPECT_NE(values[1][0], values[2][0]);
}

}  // namespace
}  // namespace lockstep::train

// A small classification problem and its training loop on replicas, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/sampler.h"
#include "framework/kernels/kernels.h"
#include "framework/nn/linear.h"
#include "framework/ops/ops.h"
#include "models/registry.h"
#include "tests/train/parallel/thread_ranks.h"
#include "train/parallel/consistency.h"
#include "train/parallel/replica.h"

namespace lockstep::train {

struct ToyProblem {
  std::int64_t samples = 1003;
  std::int64_t features = 12;
  std::int64_t classes = 5;
  std::int64_t batch_size = 64;
  int epochs = 3;
  std::int64_t accumulate = 1;
  DType dtype = DType::float32;
  double lr = 0.05;
  double momentum = 0;
  bool adam = false;
  std::uint64_t seed = 7;
  ReplicaOptions replica;
  std::function<std::shared_ptr<nn::Module>(Context&, const ToyProblem&)> make_model;
  // Called on every rank after every update.
  std::function<void(Rank, Replica&, std::int64_t step)> after_update;
};

inline std::shared_ptr<nn::Module> make_toy_mlp(Context& context, const ToyProblem& problem) {
  return models::make_model(context, "mlp", {{"hidden", std::vector<std::int64_t>{16, 8}}},
                            {Shape{problem.features}, problem.classes, problem.dtype},
                            problem.seed);
}

template <class T>
void fill_batch(const ToyProblem& problem, data::RowRange positions, std::uint64_t epoch,
                const Tensor& features, const Tensor& labels) {
  const base::RandomStream values(problem.seed, "toy features");
  const base::RandomStream shift(problem.seed, "toy order", epoch);
  const auto start = shift.below(static_cast<std::uint64_t>(problem.samples), 0);
  for (std::int64_t i = 0; i < positions.size(); ++i) {
    const auto sample = (static_cast<std::uint64_t>(positions.begin + i) + start) %
                        static_cast<std::uint64_t>(problem.samples);
    for (std::int64_t f = 0; f < problem.features; ++f)
      features.data<T>()[i * problem.features + f] =
          static_cast<T>(values.uniform(sample * static_cast<std::uint64_t>(problem.features) +
                                        static_cast<std::uint64_t>(f)) -
                         0.5f);
    labels.data<std::int64_t>()[i] =
        static_cast<std::int64_t>(sample % static_cast<std::uint64_t>(problem.classes));
  }
}

// Trains as problem says on this rank and returns the final parameters by name, as doubles.
struct ToyResult {
  std::vector<double> parameters;
  double samples_seen = 0;  // by this rank
};

inline std::unique_ptr<Replica> make_toy_replica(Rank rank, const ToyProblem& problem) {
  const Tensor example = Tensor::empty(rank.context, Shape{2, problem.features}, problem.dtype);
  kernels::kernels_for(rank.context).fill(0, example);
  auto model = problem.make_model ? problem.make_model(rank.context, problem)
                                  : make_toy_mlp(rank.context, problem);
  return std::make_unique<Replica>(
      rank.context, rank.communicator, std::move(model), Variable(example),
      [](const Variable& logits) {
        const Tensor targets = Tensor::from<std::int64_t>(logits.context(), {0, 0}, Shape{2});
        return ops::cross_entropy(logits, targets).loss_sum;
      },
      [&problem](nn::ParameterArena& arena, const optim::Shard& shard) {
        if (problem.adam) return optim::make_adam(arena, {}, shard);
        return optim::make_sgd(arena, {.momentum = problem.momentum}, shard);
      },
      problem.replica);
}

// Collective.
inline void require_equal_replicas(Rank rank, Replica& replica, std::int64_t step) {
  ConsistencyCheck check(rank.context, rank.communicator, replicated_tensors(replica));
  if (const auto divergence = check.run(step, rank.context.compute_stream()))
    throw NumericError(divergence->describe());
}

inline ToyResult train_toy(Rank rank, const ToyProblem& problem) {
  const auto replica = make_toy_replica(rank, problem);
  const data::Sampler sampler({.samples = problem.samples, .batch_size = problem.batch_size});
  ToyResult result;
  std::int64_t step = 0;
  for (int epoch = 0; epoch < problem.epochs; ++epoch) {
    for (std::int64_t s = 0; s < sampler.steps_per_epoch(); ++s) {
      const data::RowRange batch = sampler.batch(s);
      const data::RowRange mine =
          data::shard(batch.size(), rank.communicator.rank(), rank.communicator.size());
      replica->begin_step(++step);
      replica->begin_update(step, problem.accumulate);
      for (std::int64_t part = 0; part < problem.accumulate; ++part) {
        const data::RowRange rows =
            data::shard(mine.size(), static_cast<int>(part), static_cast<int>(problem.accumulate));
        if (rows.size() == 0) {
          replica->backward(Variable());
          continue;
        }
        const std::int64_t first = mine.begin + rows.begin;
        rank.context.random() = {problem.seed, static_cast<std::uint64_t>(step), first};
        const Tensor features =
            Tensor::empty(rank.context, Shape{rows.size(), problem.features}, problem.dtype);
        const Tensor labels = Tensor::empty(rank.context, Shape{rows.size()}, DType::int64);
        const data::RowRange positions{batch.begin + first, batch.begin + first + rows.size()};
        if (problem.dtype == DType::float32)
          fill_batch<float>(problem, positions, static_cast<std::uint64_t>(epoch), features,
                            labels);
        else
          fill_batch<double>(problem, positions, static_cast<std::uint64_t>(epoch), features,
                             labels);
        const auto loss = ops::cross_entropy(replica->model()(Variable(features)), labels,
                                             1.0 / static_cast<double>(batch.size()));
        result.samples_seen += loss.count();
        replica->backward(loss.loss_sum);
      }
      replica->finish_backward();
      replica->update(problem.lr);
      replica->end_step();
      if (problem.after_update) problem.after_update(rank, *replica, step);
    }
  }
  for (const auto& parameter : replica->model().named_parameters()) {
    const Tensor as_double =
        Tensor::empty(rank.context, parameter.variable.shape(), DType::float64);
    kernels::kernels_for(rank.context).copy(parameter.variable.value(), as_double);
    const auto values = as_double.elements<double>();
    result.parameters.insert(result.parameters.end(), values.begin(), values.end());
  }
  return result;
}

// The final parameters, equal on all ranks to the bit.
inline std::vector<double> train_world(int size, const ToyProblem& problem,
                                       const comm::CommunicatorOptions& options = {}) {
  std::vector<ToyResult> results(static_cast<std::size_t>(size));
  run_ranks(
      size,
      [&](Rank rank) {
        results[static_cast<std::size_t>(rank.communicator.rank())] = train_toy(rank, problem);
      },
      options);
  double samples = 0;
  for (const auto& result : results) {
    EXPECT_EQ(result.parameters, results[0].parameters);
    samples += result.samples_seen;
  }
  EXPECT_EQ(samples, static_cast<double>(problem.samples * problem.epochs));
  return results[0].parameters;
}

inline double largest_relative_difference(const std::vector<double>& a,
                                          const std::vector<double>& b) {
  double scale = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    scale = std::max(scale, std::abs(a[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference / scale;
}

inline ToyProblem small_buckets(ToyProblem problem = {}) {
  problem.replica.buckets = {.bucket_bytes = 256, .first_bucket_bytes = 64};
  return problem;
}

// Two layers that share one weight matrix.
class TiedModel final : public nn::Module {
 public:
  TiedModel(Context& context, std::int64_t width, std::int64_t classes, DType dtype) {
    first_ = register_module(
        "first", std::make_shared<nn::Linear>(
                     context, width, width,
                     nn::LinearOptions{.activation = Activation::tanh, .dtype = dtype}));
    output_ = register_module(
        "output",
        std::make_shared<nn::Linear>(context, width, classes, nn::LinearOptions{.dtype = dtype}));
  }
  Variable forward(const Variable& x) override { return (*output_)((*first_)((*first_)(x))); }

 private:
  std::shared_ptr<nn::Linear> first_, output_;
};

inline std::shared_ptr<nn::Module> make_tied(Context& context, const ToyProblem& problem) {
  auto model =
      std::make_shared<TiedModel>(context, problem.features, problem.classes, problem.dtype);
  model->initialize(problem.seed);
  return model;
}

}  // namespace lockstep::train

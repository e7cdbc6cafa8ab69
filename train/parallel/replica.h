// Replica: one rank's copy of a model, trained together with the others'.
//
// It joins the autograd engine, the parameter arena, the gradient averager and the optimizer: the
// backward pass announces gradients, buckets travel while it goes on, and each bucket's slice of
// the parameters is updated as soon as the bucket has arrived. Parameters of all ranks hold the
// same bits after every update.
//
// The caller scales every local loss by 1 / (targets in the global batch); gradients are summed, so
// shards of unequal size, empty ones included, give the gradient of the global batch.
//
// One update: begin_update(); backward() for each micro-batch, the last one marked;
// finish_backward(); update(). Used from the rank's own thread.
//
// On a GPU prepare_update() and enqueue_update() take the place of update(): the host waits for
// nothing, and what lies between the two may be captured into a graph. Whether all went well is
// then found in memory of the device, and until the host has looked there, later updates change
// nothing; undo_updates() takes them back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/bucketing/gradient_averager.h"
#include "comm/communicator.h"
#include "framework/kernels/stored_scalar.h"
#include "framework/nn/parameter_arena.h"
#include "framework/optim/optimizer.h"
#include "train/parallel/buffers.h"
#include "train/parallel/frozen_parameters.h"
#include "train/parallel/gradient_norm.h"
#include "train/parallel/sharding.h"
#include "train/timeline/timeline.h"

namespace lockstep::train {

// What to do with a parameter that no backward pass of an update reached: name it and end the run,
// or take its gradient as zero.
enum class UnusedParameters { error, zero };

// Makes what reduces the buckets: a communication hook. Collective; the communicator and the arena
// outlive it.
using ReductionFactory = std::function<std::unique_ptr<comm::BucketReduction>(
    comm::Communicator&, const nn::ParameterArena&, const comm::BucketPlan&)>;

struct ReplicaOptions {
  comm::BucketPlanOptions buckets;
  std::optional<comm::CostModel> cost;  // of an all-reduce, for them; none: the communicator's
  bool overlap = true;
  ReductionFactory make_reduction;  // none: plain sums
  // Each rank has the optimizer state of its slices of the buckets only, and updates these. The
  // same bits as without where reduce-scatter adds in the order of all-reduce. Not with a
  // make_reduction.
  bool shard_optimizer = false;
  BufferPolicy buffers = BufferPolicy::broadcast;
  // The update of a bucket's parameters waits for that bucket only, not for all. Without effect
  // where a decision needs all of them first (skip_nonfinite, clip_norm, shard_optimizer).
  bool per_bucket = true;
  // Gradients that are not finite are found before the first parameter is updated, so that training
  // can go on without the update.
  bool skip_nonfinite = false;
  UnusedParameters unused_parameters = UnusedParameters::error;
  // Largest norm of the averaged gradient, all parameters together; it is scaled down to that.
  std::optional<double> clip_norm;
  TraceSteps trace;  // steps of which the timeline keeps every event
  // What else must be the same on every rank beside the model and the plan, in lines: version,
  // configuration.
  std::string identity;
  // Every element of it is clamped to [-clip_value, clip_value]. Not with clip_norm.
  std::optional<double> clip_value;
  // Test-only: runs before the first collective of all, with step 0, and on the communication
  // stream before the buckets of update `step` are launched. What it throws aborts the run with
  // this rank as the cause.
  std::function<void(std::int64_t step)> before_all_reduce;
  // Test-only: gets the first gradients of update `step` that are final, before they can travel.
  std::function<void(std::int64_t step, const Tensor& gradient)> on_first_gradient;
};

// Makes the optimizer of a shard of the replica's arena.
using OptimizerFactory =
    std::function<std::unique_ptr<optim::Optimizer>(nn::ParameterArena&, optim::Shard)>;
// Maps the model's output to a scalar of the kind that training uses, for the dry run that finds
// the order of gradients.
using DryLoss = std::function<Variable(const Variable& output)>;

class Replica {
 public:
  // Collective: compares model and options.identity over all ranks, lays out the arena, compares
  // the order of gradients and the bucket plan (RankError naming both sides and the first
  // difference), and takes rank 0's parameters and buffers. `example` is a dry input: zeros, a
  // batch of two. Throws UsageError for options that exclude each other.
  Replica(Context& context, comm::Communicator& communicator, std::shared_ptr<nn::Module> model,
          const Variable& example, const DryLoss& dry_loss, const OptimizerFactory& make_optimizer,
          const ReplicaOptions& options);
  ~Replica() { communicator_.raise_on_failure({}); }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // `micro_batches`: how many calls of backward() follow. With `average` false the gradients stay
  // this rank's own and no update may follow: to see what a rank contributes.
  // `loss_scale`: what the gradients of the losses are multiplied by.
  void begin_update(std::int64_t step, std::int64_t micro_batches = 1, bool average = true,
                    double loss_scale = 1);
  // A micro-batch's gradients. An undefined `loss` is a micro-batch without rows on this rank.
  void backward(const Variable& loss);
  // Everything is on its way. Throws UsageError naming a parameter that no backward reached.
  void finish_backward();
  // Whether the gradients of this rank, which are not averaged, are finite; waits for them.
  bool own_gradients_are_finite();
  // Gradients are multiplied by `gradient_scale` first (one over the loss scale), then clipped.
  // False when they are not finite, the same on every rank: nothing has changed then where the
  // update has to see all of them first (skip_nonfinite, clip_norm, shard_optimizer), otherwise the
  // parameters are of no use.
  bool update(double lr, double gradient_scale = 1);

  // After begin_update(): what the update reads from memory of the device.
  void prepare_update(double lr, double gradient_scale);
  // After finish_backward(). Not with a make_reduction whose begin() and end() do something.
  // `parameters_arrive`: the compute stream waits for all parameters of shard_optimizer, since
  // nobody outside a graph can wait for what is captured; otherwise whoever reads one waits for it.
  // Returns the all-gathers, by bucket, that are behind it on the compute stream: this update's
  // with `parameters_arrive`, otherwise the one's before; none without shard_optimizer.
  std::vector<comm::Work> enqueue_update(bool parameters_arrive);
  // Of the last enqueued update, where there is a stream for communication, in pairs: a mark where
  // the compute stream came to wait (Communicator::mark), and the collective that it waited for.
  std::span<const comm::Work> waits() const { return waits_; }
  // int32 [1] on the device: not 0 once an enqueued update has met a gradient that is not finite,
  // or a collective that failed. All later updates leave the parameters alone. So does that one
  // where it has to see all gradients first (see update()); otherwise only those are left alone
  // whose gradient is not finite.
  const Tensor& spoilt() const { return nonfinite_; }
  // With skip_nonfinite, when the host has found spoilt() raised: the `count` updates from number
  // `first` on, all that were enqueued since, were none. Later ones count again.
  void undo_updates(std::int64_t first, std::int64_t count);
  // A test looks at gradients on the host, in the middle of an update.
  bool is_watched() const { return options_.on_first_gradient != nullptr; }

  // The model's buffers follow the ranks' policy: with skip_nonfinite begin_update() remembers
  // them, start() comes after finish_backward(), end() behind that, synchronize() before they are
  // used.
  ModelBuffers& buffers() { return buffers_; }

  nn::Module& model() { return *model_; }
  // Both wait for parameters that are still on their way, as reading one through its Variable does.
  nn::ParameterArena& arena();
  const nn::ParameterArena& arena() const;
  // For who has a view of them already.
  void wait_for_parameters() const;
  optim::Optimizer& optimizer() { return *optimizer_; }
  bool shards_optimizer() const { return gather_ != nullptr; }
  // The state of the whole optimizer, on rank 0; nothing on others where it is sharded, which makes
  // this collective. Good until the next update.
  OptimizerState gather_optimizer_state();
  // A whole state to be filled, and then taken, by every rank.
  OptimizerState blank_optimizer_state();
  void take_optimizer_state(const OptimizerState& whole);
  const comm::GradientAverager& averager() const { return averager_; }
  comm::BucketReduction& reduction() { return *reduction_; }
  std::string describe_buckets() const;  // and what reduces them
  // Where collectives run: the compute stream when there is nothing to overlap.
  Stream& communication_stream() { return *communication_stream_; }
  comm::Communicator& communicator() { return communicator_; }
  Context& context() { return context_; }

  // Where the time of a step goes. begin_step() comes before everything the step does; end_step()
  // when all its collectives are done, `summary` being the one that closed it, if one did.
  Timeline& timeline() { return timeline_; }
  void begin_step(std::int64_t step);
  StepParts end_step(const comm::Work& summary = {});
  // Bytes that left this rank in the current update, at least: gradients and, with shard_optimizer,
  // parameters.
  std::uint64_t sent_bytes() const;

 private:
  void announce(const Variable& leaf, std::int64_t begin, std::int64_t end,
                bool final_contribution);
  void announce_frozen();
  void settle_unreached();
  void wait_for_bucket(std::size_t bucket);
  void wait_for_all();
  bool decides_over_all_gradients() const;
  double averaged_norm();
  bool apply_buckets(double lr, double gradient_scale);
  void apply(std::size_t bucket, comm::Slice part, const kernels::GradientUse& use);
  // As enqueue_update() says.
  std::vector<comm::Work> update_slices(const kernels::GradientUse& use,
                                        bool parameters_arrive = false);
  void enqueue_waits(std::span<const comm::Work> works, const comm::Work& last);
  void take_parameters_of_rank_0();

  Context& context_;
  comm::Communicator& communicator_;
  ReplicaOptions options_;
  Timeline timeline_;
  std::shared_ptr<nn::Module> model_;
  nn::ParameterArena arena_;
  ModelBuffers buffers_;
  std::unique_ptr<Stream> communication_;  // a stream of its own, if there is one
  Stream* communication_stream_;
  std::unique_ptr<comm::BucketReduction> reduction_;
  comm::GradientAverager averager_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  FrozenParameters frozen_;
  GradientNorm norm_;
  std::unique_ptr<ParameterGather> gather_;  // when sharding
  // What changes from step to step is read from the device's memory.
  kernels::StoredScalar loss_scale_, gradient_scale_;
  Tensor clip_factor_;  // float64 [1]: of clipping by norm, the gradient scale included
  Tensor flags_;        // int32 [2]: the next two
  Tensor stop_;         // [1]: updates do nothing where it is not 0
  Tensor nonfinite_;    // [1], raised where a gradient is found not to be finite

  std::vector<comm::Work> waits_;

  std::vector<std::vector<bool>> reached_;  // by segment and entry, in this update
  bool averaging_ = true;
  std::int64_t step_ = 0;
  std::int64_t micro_batches_ = 1;
  std::int64_t micro_batch_ = 0;
  bool had_rows_ = false;
  bool had_gradient_ = false;
};

}  // namespace lockstep::train

#include "train/parallel/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "framework/autograd/engine.h"
#include "framework/kernels/kernels.h"
#include "train/parallel/agreement.h"
#include "train/parallel/peer_memory.h"

namespace lockstep::train {
namespace {

std::vector<comm::SegmentLayout> layouts_of(const nn::ParameterArena& arena) {
  std::vector<comm::SegmentLayout> layouts;
  for (const auto& segment : arena.segments()) {
    comm::SegmentLayout layout{segment.dtype, segment.gradients.count(), {}};
    for (const auto& entry : segment.entries) layout.gradients.push_back({entry.begin, entry.end});
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

comm::BucketPlan plan_of(const nn::ParameterArena& arena, const comm::Communicator& communicator,
                         const ReplicaOptions& options) {
  comm::BucketPlanOptions buckets = options.buckets;
  buckets.cost = options.cost.value_or(communicator.capabilities().cost);
  return comm::plan_buckets(layouts_of(arena), buckets);
}

void check(const ReplicaOptions& options) {
  if (options.shard_optimizer && options.make_reduction)
    throw UsageError("replica: a communication hook leaves no shards of the sum to update");
  if (options.clip_norm && options.clip_value)
    throw UsageError("replica: found clip_norm and clip_value, expected at most one of them");
}

std::unique_ptr<comm::BucketReduction> make_reduction(comm::Communicator& communicator,
                                                      const nn::ParameterArena& arena,
                                                      const ReplicaOptions& options) {
  if (options.shard_optimizer) return std::make_unique<comm::ScatterReduction>(communicator);
  if (!options.make_reduction) return std::make_unique<comm::AllReduction>(communicator);
  return options.make_reduction(communicator, arena, plan_of(arena, communicator, options));
}

std::vector<comm::Range> flat_gradients(const nn::ParameterArena& arena) {
  std::vector<comm::Range> ranges;
  for (const auto& segment : arena.segments())
    ranges.push_back({segment.gradients.data(), segment.gradients.count(), segment.dtype});
  return ranges;
}

// Which gradient stands where: the dry run found it, on each rank for itself.
std::string gradient_order(const nn::ParameterArena& arena) {
  std::string lines;
  for (const auto& segment : arena.segments())
    for (const auto& entry : segment.entries)
      lines += fmt::format("gradient {}: [{}, {})\n", entry.name, entry.begin, entry.end);
  return lines;
}

// Ranks that were not started alike must find out before they share memory or a gradient.
std::shared_ptr<nn::Module> agreed(std::shared_ptr<nn::Module> model, Context& context,
                                   comm::Communicator& communicator,
                                   const ReplicaOptions& options) {
  if (options.before_all_reduce) options.before_all_reduce(0);
  require_agreement(context, communicator, options.identity + describe_model(*model),
                    context.compute_stream());
  return model;
}

// ", all-reduced by two_shot", or how many by which; nothing where the backend chooses by itself.
std::string describe_algorithms(const comm::BucketPlan& plan,
                                const comm::Communicator& communicator) {
  std::map<std::string_view, int> count;
  for (const comm::Bucket& bucket : plan.buckets)
    ++count[communicator.algorithm_for(bucket.bytes())];
  if (count.empty() || count.begin()->first.empty()) return {};
  std::vector<std::string> words;
  for (const auto& [name, buckets] : count)
    words.push_back(count.size() == 1 ? std::string(name) : fmt::format("{} ({})", name, buckets));
  return fmt::format(", all-reduced by {}", fmt::join(words, ", "));
}

}  // namespace

Replica::Replica(Context& context, comm::Communicator& communicator,
                 std::shared_ptr<nn::Module> model, const Variable& example,
                 const DryLoss& dry_loss, const OptimizerFactory& make_optimizer,
                 const ReplicaOptions& options)
    : context_(context),
      communicator_(communicator),
      options_((check(options), options)),
      timeline_(context, options.trace),
      model_(agreed(std::move(model), context, communicator, options)),
      arena_(context, *model_, nn::backward_order(*model_, example, dry_loss),
             peer_memory(communicator),
             options.shard_optimizer ? peer_memory(communicator) : nn::BufferSource()),
      buffers_(context, communicator, *model_, options.buffers),
      communication_(options.overlap && communicator.size() > 1
                         ? context.make_stream("communication")
                         : nullptr),
      communication_stream_(communication_ ? communication_.get() : &context.compute_stream()),
      reduction_(make_reduction(communicator, arena_, options)),
      averager_(*reduction_, layouts_of(arena_), plan_of(arena_, communicator, options),
                flat_gradients(arena_), context.compute_stream(), *communication_stream_,
                options.overlap),
      optimizer_(make_optimizer(arena_, options.shard_optimizer
                                            ? shard_of(averager_.plan(), arena_.segments().size(),
                                                       communicator.rank(), communicator.size())
                                            : optim::whole_of(arena_))),
      frozen_(arena_),
      norm_(arena_, averager_.plan(), communicator, options.shard_optimizer),
      loss_scale_(context),
      gradient_scale_(context),
      clip_factor_(Tensor::empty(context, {1}, DType::float64)),
      flags_(Tensor::empty(context, {2}, DType::int32)),
      stop_(flags_.slice(0, 0, 1)),
      nonfinite_(flags_.slice(0, 1, 2)) {
  kernels::kernels_for(context_).fill(0, flags_);
  if (context_.has_graphs())
    communicator_.raise_on_failure({flags_.data(), flags_.count(), flags_.dtype()});
  for (const auto& segment : arena_.segments())
    reached_.emplace_back(segment.entries.size(), false);
  require_agreement(context_, communicator_, averager_.plan().list() + gradient_order(arena_),
                    context_.compute_stream());
  take_parameters_of_rank_0();
  if (options_.shard_optimizer)
    gather_ = std::make_unique<ParameterGather>(arena_, averager_.plan(), communicator,
                                                context.compute_stream(), *communication_stream_,
                                                timeline_);
  // What the dry run took, and the parameters' first places, will not be needed again. On a GPU,
  // giving it back waits for all that runs there: for collectives of ranks that share it and are
  // ahead too, which wait for this rank. There it goes when memory is short.
  if (context_.device().kind == DeviceKind::cpu) context_.allocator().release_cached();
}

void Replica::take_parameters_of_rank_0() {
  Stream& stream = context_.compute_stream();
  for (auto& segment : arena_.segments())
    communicator_
        .broadcast({segment.parameters.data(), segment.parameters.count(), segment.dtype}, 0,
                   stream)
        .wait();
  buffers_.broadcast(stream);
}

void Replica::begin_update(std::int64_t step, std::int64_t micro_batches, bool average,
                           double loss_scale) {
  averaging_ = average;
  step_ = step;
  micro_batches_ = micro_batches;
  micro_batch_ = 0;
  had_rows_ = false;
  had_gradient_ = false;
  for (auto& segment : reached_) std::fill(segment.begin(), segment.end(), false);
  frozen_.look();
  loss_scale_.set(loss_scale);
  if (!averaging_) return;
  if (options_.skip_nonfinite) buffers_.begin(step);
  reduction_->begin({.number = step, .loss_scale = loss_scale});
  averager_.begin();
  if (options_.before_all_reduce) {
    communication_stream_->enqueue([this, step] {
      try {
        options_.before_all_reduce(step);
      } catch (const std::exception& error) {
        communicator_.abort(communicator_.rank(), error.what());
      }
    });
  }
}

void Replica::backward(const Variable& loss) {
  const Timeline::Span span(timeline_, Activity::backward);
  const bool last = ++micro_batch_ == micro_batches_;
  // A single micro-batch overwrites what the gradient buffer holds; several add up from zero, since
  // a parameter may be reached by some of them only.
  const bool accumulate = micro_batches_ > 1;
  if ((accumulate && micro_batch_ == 1) || (!accumulate && !loss.defined())) {
    for (auto& segment : arena_.segments())
      kernels::kernels_for(context_).fill(0, segment.gradients);
  }
  if (!loss.defined()) return;
  had_rows_ = true;
  if (last && averaging_) announce_frozen();
  autograd::backward(
      loss,
      {.on_gradient_ready = [this, last](const Variable& leaf, std::int64_t begin,
                                         std::int64_t end) { announce(leaf, begin, end, last); },
       .accumulate = accumulate,
       .seed_gradient = loss_scale_.tensor()});
}

void Replica::announce(const Variable& leaf, std::int64_t begin, std::int64_t end,
                       bool final_contribution) {
  const auto [segment, index] = arena_.find(leaf);
  reached_[segment][index] = true;
  if (options_.on_first_gradient && !std::exchange(had_gradient_, true))
    options_.on_first_gradient(step_, leaf.grad().flatten().slice(0, begin, end));
  if (!final_contribution || !averaging_) return;
  const std::int64_t offset = arena_.segments()[segment].entries[index].begin;
  averager_.ready(segment, offset + begin, offset + end);
}

// No backward pass announces them, and buckets are not to wait for them.
void Replica::announce_frozen() {
  for (std::size_t s = 0; s < frozen_.ranges().size(); ++s)
    for (const auto& range : frozen_.ranges()[s]) averager_.ready(s, range.begin, range.end);
}

void Replica::finish_backward() {
  // A rank without rows contributes zeros and reaches nothing, rightly.
  if (had_rows_) settle_unreached();
  if (!averaging_) return;
  const Timeline::Span span(timeline_, Activity::bucket_wait);
  averager_.finish();  // without overlap the buckets travel here
}

void Replica::settle_unreached() {
  for (std::size_t s = 0; s < reached_.size(); ++s)
    for (std::size_t e = 0; e < reached_[s].size(); ++e) {
      const auto& entry = arena_.segments()[s].entries[e];
      if (reached_[s][e] || !entry.parameter.requires_grad()) continue;
      if (options_.unused_parameters == UnusedParameters::zero)
        kernels::kernels_for(context_).fill(0, entry.parameter.grad());
      else
        throw UsageError(
            fmt::format("parameter '{}' was not reached by the backward pass of step {}: its "
                        "gradient is unknown. Every parameter must take part in the loss or be "
                        "frozen, or data_parallel.unused_parameters be zero",
                        entry.name, step_));
    }
}

void Replica::wait_for_bucket(std::size_t bucket) {
  if (averager_.works()[bucket].done()) return averager_.wait(bucket);
  const Timeline::Span span(timeline_, Activity::bucket_wait, static_cast<std::uint32_t>(bucket));
  averager_.wait(bucket);
}

void Replica::wait_for_all() {
  for (std::size_t b = 0; b < averager_.plan().buckets.size(); ++b) wait_for_bucket(b);
}

bool Replica::own_gradients_are_finite() {
  const Timeline::Span span(timeline_, Activity::update);
  const kernels::Kernels& kernels = kernels::kernels_for(context_);
  kernels.fill(0, nonfinite_);
  for (const auto& segment : arena_.segments())
    kernels.find_nonfinite(segment.gradients, nonfinite_);
  return nonfinite_.item<std::int32_t>() == 0;
}

// Of the same bits on every rank. Buckets are read as they arrive, while later ones travel.
double Replica::averaged_norm() {
  for (std::size_t b = 0; b < averager_.plan().buckets.size(); ++b) {
    wait_for_bucket(b);
    const Timeline::Span span(timeline_, Activity::update, static_cast<std::uint32_t>(b));
    norm_.add(b);
  }
  const Timeline::Span span(timeline_, Activity::summary_wait);
  norm_.exchange(*communication_stream_);
  return norm_.total();
}

// Whether all gradients have to be seen before the first parameter is updated.
bool Replica::decides_over_all_gradients() const {
  return options_.skip_nonfinite || options_.clip_norm || options_.shard_optimizer;
}

bool Replica::update(double lr, double gradient_scale) {
  const bool used = apply_buckets(lr, gradient_scale);
  if (!used) wait_for_all();
  reduction_->end(used);
  return used;
}

bool Replica::apply_buckets(double lr, double gradient_scale) {
  gradient_scale_.set(gradient_scale);
  kernels::GradientUse use = {.factor = gradient_scale_.tensor()};
  if (options_.clip_value) use.limit = *options_.clip_value;
  if (context_.has_graphs()) use.skip = stop_;  // of a collective that failed
  // The norm is finite exactly when all gradients are; ranks that each have a slice of them could
  // not agree otherwise. Where nobody needs to know before, the optimizer looks on the way.
  if (decides_over_all_gradients()) {
    if (!std::isfinite(averaged_norm())) return false;
    if (options_.clip_norm) {
      norm_.clip(use.factor, *options_.clip_norm, clip_factor_, nonfinite_);
      use.factor = clip_factor_;
    }
  } else {
    kernels::kernels_for(context_).fill(0, nonfinite_);
    use.nonfinite = nonfinite_;
  }
  if (!options_.per_bucket) wait_for_all();
  optimizer_->begin_update(lr);
  if (gather_) {
    timeline_.travelled(update_slices(use));
    return true;
  }
  const auto& buckets = averager_.plan().buckets;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    wait_for_bucket(b);
    apply(b, {0, buckets[b].count()}, use);
  }
  return !use.nonfinite.defined() || nonfinite_.item<std::int32_t>() == 0;
}

void Replica::prepare_update(double lr, double gradient_scale) {
  gradient_scale_.set(gradient_scale);
  optimizer_->begin_update(lr);
}

std::vector<comm::Work> Replica::enqueue_update(bool parameters_arrive) {
  const kernels::Kernels& kernels = kernels::kernels_for(context_);
  const std::size_t buckets = averager_.plan().buckets.size();
  kernels::GradientUse use = {.factor = gradient_scale_.tensor()};
  if (options_.clip_value) use.limit = *options_.clip_value;
  const bool at_once = decides_over_all_gradients() || !options_.per_bucket;
  const std::span<const comm::Work> works(averager_.works());
  waits_.clear();
  if (at_once && buckets > 0) enqueue_waits(works, works.back());
  if (decides_over_all_gradients()) {
    for (std::size_t b = 0; b < buckets; ++b) norm_.add(b);
    norm_.exchange(*communication_stream_);
    constexpr double no_limit = std::numeric_limits<double>::infinity();
    norm_.clip(use.factor, options_.clip_norm.value_or(no_limit), clip_factor_, nonfinite_);
    use.factor = clip_factor_;
    use.skip = nonfinite_;
  } else {
    // The flag that an update looks at is not the one that it raises, which all of its blocks would
    // have to see at the same time.
    use.nonfinite = nonfinite_;
    use.skip = stop_;
  }
  std::vector<comm::Work> gathers;
  if (gather_) {
    gathers = update_slices(use, parameters_arrive);
  } else {
    for (std::size_t b = 0; b < buckets; ++b) {
      if (!at_once) enqueue_waits(works.subspan(b, 1), works[b]);
      apply(b, {0, averager_.plan().buckets[b].count()}, use);
    }
  }
  kernels.copy(nonfinite_, stop_);
  return gathers;
}

void Replica::undo_updates(std::int64_t first, std::int64_t count) {
  optimizer_->set_updates(optimizer_->updates() - count);
  buffers_.undo(first);
  kernels::kernels_for(context_).fill(0, flags_);
}

void Replica::apply(std::size_t index, comm::Slice part, const kernels::GradientUse& use) {
  const Timeline::Span span(timeline_, Activity::update, static_cast<std::uint32_t>(index));
  const comm::Bucket& bucket = averager_.plan().buckets[index];
  frozen_.for_each_trained(bucket.segment, bucket.begin + part.begin, bucket.begin + part.end,
                           [&](std::int64_t begin, std::int64_t end) {
                             optimizer_->apply(bucket.segment, begin, end, use);
                           });
}

// From the last bucket to the first: the next forward pass begins with what the backward pass
// finished last.
std::vector<comm::Work> Replica::update_slices(const kernels::GradientUse& use,
                                               bool parameters_arrive) {
  gather_->finish();
  const auto& buckets = averager_.plan().buckets;
  std::vector<comm::Work> gathers(buckets.size());
  for (std::size_t b = buckets.size(); b-- > 0;) {
    const auto slice =
        comm::slice_of(buckets[b].count(), communicator_.rank(), communicator_.size());
    apply(b, slice, use);
    gathers[b] = gather_->start(b);
  }
  if (!parameters_arrive) return gather_->expect(std::move(gathers));
  if (!gathers.empty()) enqueue_waits(gathers, gathers.front());
  return gathers;
}

// `last`: of the works, the one that ends last.
void Replica::enqueue_waits(std::span<const comm::Work> works, const comm::Work& last) {
  Stream& compute = context_.compute_stream();
  if (communication_) {
    waits_.push_back(communicator_.mark(compute));
    waits_.push_back(last);
  }
  for (const comm::Work& work : works) work.wait_on(compute);
}

void Replica::wait_for_parameters() const {
  if (gather_) gather_->finish();
}

nn::ParameterArena& Replica::arena() {
  wait_for_parameters();
  return arena_;
}

const nn::ParameterArena& Replica::arena() const {
  wait_for_parameters();
  return arena_;
}

OptimizerState Replica::gather_optimizer_state() {
  if (!gather_) return optimizer_->state();
  wait_for_parameters();
  return gather_state(arena_, *optimizer_, averager_.plan(), communicator_, *communication_stream_);
}

OptimizerState Replica::blank_optimizer_state() {
  return gather_ ? make_whole_state(arena_, *optimizer_) : optimizer_->state();
}

void Replica::take_optimizer_state(const OptimizerState& whole) {
  if (gather_) take_state(whole, *optimizer_);  // otherwise it is the state
}

std::string Replica::describe_buckets() const {
  return fmt::format("{}{}; hook {}", averager_.plan().describe(),
                     describe_algorithms(averager_.plan(), communicator_), reduction_->name());
}

void Replica::begin_step(std::int64_t step) {
  timeline_.begin_step(step);
  averager_.record_times(timeline_.tracing());
}

StepParts Replica::end_step(const comm::Work& summary) {
  return timeline_.end_step({averager_.works(), averager_.times(), summary});
}

std::uint64_t Replica::sent_bytes() const {
  std::uint64_t bytes = averager_.sent_this_step();
  if (gather_)
    for (const auto& bucket : averager_.plan().buckets)
      bytes +=
          comm::bytes_sent(comm::CollectiveKind::all_gather, bucket.bytes(), communicator_.size());
  return bytes;
}

}  // namespace lockstep::train

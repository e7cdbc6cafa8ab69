#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/loader.h"
#include "framework/base/log.h"
#include "framework/base/units.h"
#include "train/checkpoint.h"
#include "train/checkpoint_folder.h"
#include "train/config/print.h"
#include "train/config/rules.h"
#include "train/culprits.h"
#include "train/damage.h"
#include "train/deferred_steps.h"
#include "train/evaluate.h"
#include "train/fault.h"
#include "train/loss_scaler.h"
#include "train/metrics.h"
#include "train/micro_batches.h"
#include "train/parallel/consistency.h"
#include "train/parallel/gather.h"
#include "train/parallel/host_storage.h"
#include "train/parallel/replica.h"
#include "train/recipe.h"
#include "train/timeline/epoch_times.h"
#include "train/timeline/interval.h"
#include "train/timeline/trace_file.h"

namespace lockstep::train {
namespace {

bool is_multiple(std::int64_t number, std::optional<std::int64_t> of) {
  return of.value_or(0) > 0 && number % *of == 0;
}

class Trainer {
 public:
  Trainer(const Config& config, const RunOptions& options, Worker& worker, const FaultHook& faults,
          Context& context, comm::Communicator& communicator, HostStorage& storage, const Log& log);

  void run();
  void record_finished();

 private:
  void defer_steps(HostStorage& storage);
  void resume(const std::string& path);
  void announce();

  void train_epoch();
  void train_step();
  void enqueue_step(const data::Batch& batch);
  void read_results(std::size_t left);
  StepSummary take_back(const DeferredSteps::Result& result);
  void record(const StepRecord& step, std::span<const comm::Work> buckets);
  double take_data_wait();
  data::Batch next_batch();
  void start_summary(const StepSummary& local);
  StepSummary summary_of_all();
  StepSummary forward_backward(const data::Batch& batch);
  StepSummary handle_nonfinite(const data::Batch& batch);
  void after_update();
  bool is_looked_at() const;
  void check_replicas();
  void handle_divergence(const Divergence& divergence);

  void write_trace_when_done(bool at_end);
  void evaluate_now();
  void save();
  bool checkpoints_enabled() const;

  const Config& config_;
  const RunOptions& options_;
  Worker& worker_;
  const FaultHook& faults_;
  Context& context_;
  comm::Communicator& communicator_;
  const Log& log_;
  LossCounter counter_;
  LossScaler scaler_;

  data::Loader training_data_;
  data::Loader test_data_;
  std::int64_t total_steps_;
  optim::Schedule schedule_;
  std::unique_ptr<Replica> replica_;
  MicroBatches micro_batches_;
  ConsistencyCheck consistency_;
  SummaryExchange exchange_;
  EpochRecorder epoch_times_;
  std::optional<Metrics> metrics_;               // rank 0
  std::optional<CheckpointFolder> checkpoints_;  // rank 0
  std::optional<DeferredSteps> deferred_;        // on a GPU, where the host need not wait

  std::int64_t epoch_ = 0;          // in progress, from 0
  std::int64_t step_in_epoch_ = 0;  // updates done in it
  std::int64_t steps_done_ = 0;     // updates done in all, or enqueued
  std::int64_t step_ = 0;           // the update in progress
  std::int64_t checked_at_ = -1;
  std::int64_t saved_at_ = -1;
  std::int64_t evaluated_at_ = -1;
  bool stopping_ = false;
  double data_wait_before_ = 0;
};

Trainer::Trainer(const Config& config, const RunOptions& options, Worker& worker,
                 const FaultHook& faults, Context& context, comm::Communicator& communicator,
                 HostStorage& storage, const Log& log)
    : config_(config),
      options_(options),
      worker_(worker),
      faults_(faults),
      context_(context),
      communicator_(communicator),
      log_(log),
      counter_(context),
      scaler_(config.train.loss_scale == "dynamic"),
      training_data_(context, config.data.file, "train",
                     training_loader_options(config, context, communicator, faults), storage),
      test_data_(context, config.data.file, "test", loader_options(config, context, communicator),
                 storage),
      total_steps_(total_steps(config, training_data_.steps_per_epoch())),
      schedule_(make_schedule(config, training_data_.steps_per_epoch(), total_steps_)),
      replica_(make_replica(
          config, context, communicator,
          {training_data_.feature_shape(), training_data_.classes(), config.train.dtype}, faults)),
      micro_batches_(config, context, *replica_, counter_),
      consistency_(context, communicator, replicated_tensors(*replica_)),
      exchange_(context, communicator),
      epoch_times_(context, communicator) {
  if (communicator.rank() == 0) {
    metrics_.emplace(MetricsOptions{options.run_folder + "/metrics.jsonl", config.train.epochs,
                                    total_steps_, config.train.log_every, config.data.wait_warning},
                     log);
    checkpoints_.emplace(
        CheckpointFolderOptions{options.run_folder + "/checkpoints", config.checkpoint.keep_last,
                                config.checkpoint.on_error == "stop"},
        log);
  }
  if (!options.evaluate_only)
    require_rows_for_batch_norm(config, replica_->model(), training_data_.samples(),
                                communicator.size());
  if (options.resume) resume(*options.resume);
  if (!options.evaluate_only) keep_working_copy(*replica_);
  announce();
  if (context.has_graphs() && !options.evaluate_only) defer_steps(storage);
}

void Trainer::defer_steps(HostStorage& storage) {
  if (const std::string decided = decided_on_host(config_); !decided.empty())
    return log_.info("the host waits for the GPU in every update: {}", decided);
  const auto meet = [&storage] { storage.meet("where the workers on a GPU make graphs"); };
  deferred_.emplace(context_, *replica_, counter_, micro_batches_,
                    graph_options(config_.compute, communicator_, *replica_, meet), log_);
}

void Trainer::resume(const std::string& path) {
  const Progress progress =
      at_next_batch(load_checkpoint(path, *replica_), training_data_.steps_per_epoch());
  epoch_ = progress.epoch;
  step_in_epoch_ = progress.step_in_epoch;
  steps_done_ = progress.steps_done;
  if (scaler_.is_dynamic()) scaler_.restore(progress.loss_scale);
  saved_at_ = steps_done_;
  if (const auto hook = replica_->reduction().name(); progress.hook != hook)
    log_.warning("the checkpoint was saved with hook {}, this run has {}: its state starts anew",
                 progress.hook, hook);
  log_.info("resumed from '{}': epoch {}, step {}", path, epoch_ + 1, steps_done_);
}

void Trainer::announce() {
  const auto& arena = replica_->arena();
  std::size_t state_bytes = 0;
  for (const auto& state : replica_->optimizer().state())
    for (const Tensor& segment : state.segments) state_bytes += segment.bytes();
  log_.info(
      "model {}: {} parameters; each worker keeps {} of parameters, {} of gradients and {} of "
      "optimizer state; the buckets take no memory of their own",
      config_.model.name, arena.parameter_count(), base::format_bytes(arena.bytes()),
      base::format_bytes(arena.bytes()), base::format_bytes(state_bytes));
  if (const std::size_t bytes = arena.working_bytes(); bytes > 0)
    log_.info("products read a copy of the parameters in bfloat16, {} for each worker",
              base::format_bytes(bytes));
  log_.info("data '{}': {} training and {} test samples, {} steps per epoch of batch {}",
            config_.data.file, training_data_.samples(), test_data_.samples(),
            training_data_.steps_per_epoch(), config_.train.batch_size);
  log_.info("buckets: {}", replica_->describe_buckets());
  log_.debug("initial weights {}", weights_digest(arena));
  if (metrics_)
    metrics_->start({.workers = communicator_.size(),
                     .backend = std::string(communicator_.backend()),
                     .algorithm = config_.comm.algorithm,
                     .start_up_seconds = seconds({options_.started, device::Clock::now()}),
                     .parameters = arena.parameter_count(),
                     .buckets = replica_->averager().plan().buckets.size()});
}

void Trainer::run() {
  if (options_.evaluate_only) return evaluate_now();
  training_data_.seek(epoch_, step_in_epoch_);
  while (steps_done_ < total_steps_ && !stopping_) train_epoch();
  if (stopping_) {
    if (checkpoints_enabled()) save();
    return log_.info("stopped after step {}, as asked", steps_done_);
  }
  evaluate_now();
  if (checkpoints_enabled()) save();
  write_trace_when_done(/*at_end=*/true);
  log_.info("done: {} steps, final weights {}", steps_done_, weights_digest(replica_->arena()));
  if (checkpoints_) checkpoints_->require_last_save();
}

// From wherever the epoch stands to its end, or to the end of the run.
void Trainer::train_epoch() {
  const std::int64_t steps = training_data_.steps_per_epoch();
  while (step_in_epoch_ < steps && steps_done_ < total_steps_ && !stopping_) {
    train_step();
    after_update();
  }
  read_results(/*left=*/0);
  if (stopping_) return;
  const EpochTimes times = epoch_times_.take(replica_->communication_stream());
  if (metrics_) metrics_->epoch(epoch_ + 1, times);
  if (step_in_epoch_ < steps) return;  // train.steps ended the run here
  ++epoch_;
  step_in_epoch_ = 0;
  if (is_multiple(epoch_, config_.train.evaluate_every)) evaluate_now();
  if (is_multiple(epoch_, config_.checkpoint.every_epochs)) save();
}

void Trainer::train_step() {
  step_ = steps_done_ + 1;
  worker_.report_step(step_);
  replica_->begin_step(step_);
  const data::Batch batch = next_batch();
  log_.debug("step {}: samples {}", step_, fmt::join(batch.indices, " "));
  if (deferred_) return enqueue_step(batch);

  replica_->begin_update(step_, config_.train.accumulate, /*average=*/true, scaler_.scale());
  StepSummary local = forward_backward(batch);
  replica_->finish_backward();
  replica_->buffers().start(batch.rows, batch.global_rows, replica_->communication_stream());
  local.stop_requests = worker_.stop_requested() ? 1 : 0;
  local.data_wait_seconds = take_data_wait();
  start_summary(local);

  const double lr = config_.optimizer.lr * schedule_.factor(steps_done_);
  const bool is_finite = replica_->update(lr, 1 / scaler_.scale());
  const StepSummary total = summary_of_all();
  replica_->buffers().end();
  if (is_finite) {
    scaler_.record(true);
  } else {
    handle_nonfinite(batch);
    replica_->buffers().undo(step_);
  }

  ++steps_done_;
  ++step_in_epoch_;
  record({.epoch = epoch_ + 1,
          .step = steps_done_,
          .summary = total,
          .lr = lr,
          .parts = replica_->end_step(exchange_.work()),
          .data_wait_seconds = total.data_wait_seconds / communicator_.size(),
          .reduced_bytes = replica_->averager().bytes_this_step(),
          .sent_bytes = replica_->sent_bytes()},
         replica_->averager().works());
}

// The results are read later, in read_results().
void Trainer::enqueue_step(const data::Batch& batch) {
  if (batch.rows > 0) faults_.hit(communicator_.rank(), step_, FaultPlace::forward);
  deferred_->enqueue({.step = step_,
                      .epoch = epoch_,
                      .step_in_epoch = step_in_epoch_,
                      .lr = config_.optimizer.lr * schedule_.factor(steps_done_),
                      .loss_scale = scaler_.state(),
                      .stop_requests = worker_.stop_requested() ? 1.0 : 0.0,
                      .data_wait_seconds = take_data_wait()},
                     batch);
  scaler_.record(true);
  ++steps_done_;
  ++step_in_epoch_;
}

// Of enqueued steps, until `left` are unread; called at the same places on every rank.
void Trainer::read_results(std::size_t left) {
  while (deferred_ && deferred_->pending() > left) {
    const DeferredSteps::Result result = deferred_->read();
    StepRecord step = result.record;
    if (!result.is_finite) step.summary = take_back(result);
    record(step, result.buckets);
  }
}

// After a failure, before the others hear of it.
void Trainer::record_finished() {
  if (!deferred_) return;
  for (const StepRecord& step : deferred_->finish())
    if (metrics_) metrics_->step(step);
}

// A step whose gradients were not finite changed nothing; those behind it did not either, and are
// enqueued again. Its batch has gone and is read again. Returns its summary, of finite losses only.
StepSummary Trainer::take_back(const DeferredSteps::Result& result) {
  const DeferredSteps::Start& start = result.start;
  deferred_->discard();
  step_ = steps_done_ = start.step;
  step_in_epoch_ = start.step_in_epoch + 1;
  scaler_.restore(start.loss_scale);
  training_data_.seek(start.epoch, start.step_in_epoch);
  StepSummary local = handle_nonfinite(training_data_.next());
  if (communicator_.rank() == 0) {
    local.stop_requests = result.record.summary.stop_requests;
    local.data_wait_seconds = result.record.summary.data_wait_seconds;
  }
  deferred_->undo(start);
  return exchange_.exchange(local, replica_->communication_stream());
}

void Trainer::record(const StepRecord& step, std::span<const comm::Work> buckets) {
  epoch_times_.add(step.parts, buckets, replica_->communication_stream());
  if (step.summary.stop_requests > 0) stopping_ = true;
  if (metrics_) metrics_->step(step);
}

// Since the last call.
double Trainer::take_data_wait() {
  const double all = training_data_.wait_seconds();
  return all - std::exchange(data_wait_before_, all);
}

data::Batch Trainer::next_batch() {
  const Timeline::Span span(replica_->timeline(), Activity::data_wait);
  return training_data_.next();
}

void Trainer::start_summary(const StepSummary& local) {
  const Timeline::Span span(replica_->timeline(), Activity::summary_wait);
  exchange_.start(local, replica_->communication_stream());
}

StepSummary Trainer::summary_of_all() {
  const Timeline::Span span(replica_->timeline(), Activity::summary_wait);
  return exchange_.get();
}

// Of this rank's rows.
StepSummary Trainer::forward_backward(const data::Batch& batch) {
  StepSummary local;
  if (batch.rows > 0) faults_.hit(communicator_.rank(), step_, FaultPlace::forward);
  micro_batches_.run(batch, step_);
  counter_.take(local);
  // A loss that is not finite has gradients that are not, which are handled; means go without it.
  if (!std::isfinite(local.loss_sum)) local = {};
  return local;
}

// The gradients that are averaged no longer tell whose was at fault: each rank computes its own
// again, with the loss scale that they had. Returns its summary.
StepSummary Trainer::handle_nonfinite(const data::Batch& batch) {
  replica_->begin_update(step_, config_.train.accumulate, /*average=*/false, scaler_.scale());
  const StepSummary local = forward_backward(batch);
  replica_->finish_backward();
  const auto culprits = find_culprits(communicator_, replica_->communication_stream(),
                                      !replica_->own_gradients_are_finite(), batch);
  const std::string message = fmt::format("the gradients of step {} are not finite {}", step_,
                                          describe(culprits, config_.data.file));
  scaler_.record(false);
  if (!may_skip(config_)) throw NumericError(message + " (train.on_nonfinite is stop)");
  log_.warning(
      "{}: skipped on all ranks{}", message,
      scaler_.is_dynamic() ? fmt::format(", the loss scale is {} now", scaler_.scale()) : "");
  return local;
}

void Trainer::after_update() {
  if (faults_.active())
    damage(faults_.hit(communicator_.rank(), steps_done_, FaultPlace::after_step),
           replica_->arena().segments()[0].parameters);
  // May take back a step behind which nothing looks at the replica.
  read_results(is_looked_at() ? 0 : 1);
  if (is_multiple(steps_done_, config_.consistency.every)) check_replicas();
  if (is_multiple(steps_done_, config_.checkpoint.every_steps)) save();
  write_trace_when_done(/*at_end=*/false);
}

// Whether something is to see the replica before the next step, or times this one.
bool Trainer::is_looked_at() const {
  const Timeline& timeline = replica_->timeline();
  return is_multiple(steps_done_, config_.consistency.every) ||
         is_multiple(steps_done_, config_.checkpoint.every_steps) ||
         step_in_epoch_ == training_data_.steps_per_epoch() || steps_done_ == total_steps_ ||
         timeline.tracing() || timeline.trace_steps().contains(steps_done_ + 1);
}

// Collective in the step after which all that is to be traced has been.
void Trainer::write_trace_when_done(bool at_end) {
  Timeline& timeline = replica_->timeline();
  const TraceSteps& steps = timeline.trace_steps();
  if (at_end && !timeline.tracing() && steps.any() && steps_done_ < steps.first)
    log_.warning("no trace: the run ended after update {}, run.trace is {}", steps_done_,
                 steps.first);
  if (!timeline.tracing() || (steps_done_ < steps.last && !at_end)) return;
  timeline.end_trace();
  const auto by_rank = gather_texts(
      context_, communicator_,
      trace_events(timeline, communicator_.rank(), replica_->averager().plan(), options_.started),
      replica_->communication_stream());
  if (communicator_.rank() != 0) return;
  const std::string path = options_.run_folder + "/trace.json";
  write_trace(path, by_rank);
  log_.info("trace of updates {} to {}: {}", steps.first, std::min(steps.last, steps_done_), path);
}

void Trainer::check_replicas() {
  const Timeline::Span span(replica_->timeline(), Activity::consistency);
  checked_at_ = steps_done_;
  replica_->wait_for_parameters();
  replica_->buffers().synchronize(replica_->communication_stream());
  if (const auto divergence = consistency_.run(steps_done_, replica_->communication_stream()))
    handle_divergence(*divergence);
  if (metrics_) metrics_->weights(steps_done_, consistency_.weights_digest());
}

void Trainer::handle_divergence(const Divergence& divergence) {
  const std::string& policy = config_.consistency.on_divergence;
  if (metrics_) metrics_->divergence(divergence, policy);
  if (policy == "stop") throw NumericError(divergence.describe());
  if (policy == "warn")
    return log_.warning("{}: going on, as consistency.on_divergence says", divergence.describe());
  consistency_.take_values_of(divergence.reference, replica_->communication_stream());
  if (const auto still = consistency_.run(steps_done_, replica_->communication_stream()))
    throw NumericError(still->describe() + ", although all took the values of one");
  replica_->arena().refresh_working_copy();
  log_.warning("{}: all ranks took the values of rank {}", divergence.describe(),
               divergence.reference);
}

void Trainer::evaluate_now() {
  if (evaluated_at_ == steps_done_) return;
  const Timeline::Span span(replica_->timeline(), Activity::evaluation);
  const auto start = device::Clock::now();
  replica_->buffers().synchronize(replica_->communication_stream());
  const StepSummary total = evaluate(context_, replica_->model(), test_data_, exchange_,
                                     replica_->communication_stream());
  evaluated_at_ = steps_done_;
  if (metrics_)
    metrics_->evaluation(epoch_ + (step_in_epoch_ > 0 ? 1 : 0), steps_done_, total,
                         seconds({start, device::Clock::now()}));
}

bool Trainer::checkpoints_enabled() const {
  return config_.checkpoint.every_steps || config_.checkpoint.every_epochs;
}

void Trainer::save() {
  if (saved_at_ == steps_done_) return;
  saved_at_ = steps_done_;
  // A damaged state must not outlive the run.
  if (config_.consistency.every > 0) {
    if (checked_at_ != steps_done_) check_replicas();
    consistency_.require_finite_parameters(steps_done_);
  }
  const Timeline::Span span(replica_->timeline(), Activity::checkpoint);
  replica_->buffers().synchronize(replica_->communication_stream());
  const auto hook_state = gather_reduction_state(replica_->reduction(), communicator_, context_,
                                                 replica_->communication_stream());
  const OptimizerState optimizer = replica_->gather_optimizer_state();
  if (!checkpoints_) return;
  faults_.hit(communicator_.rank(), steps_done_, FaultPlace::save);
  const Progress progress =
      at_next_batch({epoch_, step_in_epoch_, steps_done_, communicator_.size(), scaler_.state()},
                    training_data_.steps_per_epoch());
  checkpoints_->save(*replica_, optimizer, progress, to_yaml(config_), hook_state);
}

}  // namespace

void run_training(const Config& config, const RunOptions& options, Worker& worker,
                  const FaultHook& faults, Context& context, comm::Communicator& communicator,
                  HostStorage& storage, const Log& log, const FailureHandler& on_failure) {
  // Outlives the handler: what it unwinds waits for collectives in flight.
  std::optional<Trainer> trainer;
  try {
    trainer.emplace(config, options, worker, faults, context, communicator, storage, log);
    trainer->run();
  } catch (const std::exception& error) {
    if (trainer) trainer->record_finished();
    on_failure(error);
    throw;
  }
}

}  // namespace lockstep::train

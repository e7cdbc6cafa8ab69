#include "train/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "data/sampler.h"
#include "framework/kernels/kernels.h"
#include "framework/nn/batch_norm.h"
#include "framework/ops/cross_entropy.h"
#include "train/config/print.h"
#include "train/config/rules.h"
#include "train/damage.h"
#include "train/parallel/hooks/hooks.h"
#include "train/version.h"

namespace lockstep::train {
namespace {

std::size_t bytes_of_mib(double mib) {
  return static_cast<std::size_t>(std::llround(mib * 1024 * 1024));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Config::Optimizer& config,
                                                 nn::ParameterArena& arena,
                                                 const optim::Shard& shard) {
  if (config.name == "sgd")
    return optim::make_sgd(arena,
                           {.momentum = config.momentum,
                            .weight_decay = config.weight_decay,
                            .nesterov = config.nesterov},
                           shard);
  return optim::make_adam(arena,
                          {.beta1 = config.beta1,
                           .beta2 = config.beta2,
                           .epsilon = config.epsilon,
                           .weight_decay = config.weight_decay,
                           .decoupled = config.name == "adamw"},
                          shard);
}

// Of GPUs the model does not count: what they compute alike on every rank, the updates, has the
// same bits on all of them.
std::string name_of_kernels(const Context& context) {
  return context.device().kind == DeviceKind::cpu ? kernels::cpu_kernels_description() : "CUDA";
}

ReplicaOptions replica_options(const Config& config, const Context& context,
                               const FaultHook& faults, int rank) {
  ReplicaOptions options;
  options.identity = fmt::format("program version: {}\nkernels: {}\n{}", program_version(),
                                 name_of_kernels(context), to_lines(config));
  if (const auto mib = config.data_parallel.bucket_mib)
    options.buckets.bucket_bytes = bytes_of_mib(*mib);
  else
    options.buckets.bucket_bytes.reset();
  options.buckets.first_bucket_bytes = bytes_of_mib(config.data_parallel.first_bucket_mib);
  if (config.run.trace)
    options.trace = {*config.run.trace, *config.run.trace + config.run.trace_steps - 1};
  options.overlap = config.data_parallel.overlap;
  options.make_reduction =
      make_hook(config.data_parallel.hook, {.top_k_ratio = config.data_parallel.top_k_ratio,
                                            .power_sgd_rank = config.data_parallel.power_sgd_rank,
                                            .power_sgd_start = config.data_parallel.power_sgd_start,
                                            .seed = *config.seed,
                                            .may_skip = may_skip(config)});
  options.buffers =
      config.data_parallel.buffers == "average" ? BufferPolicy::average : BufferPolicy::broadcast;
  options.unused_parameters = config.data_parallel.unused_parameters == "zero"
                                  ? UnusedParameters::zero
                                  : UnusedParameters::error;
  options.shard_optimizer = config.data_parallel.sharding == "optimizer";
  options.skip_nonfinite = may_skip(config);
  options.clip_norm = config.optimizer.clip_norm;
  options.clip_value = config.optimizer.clip_value;
  options.per_bucket = config.optimizer.per_bucket == "on" || config.optimizer.per_bucket == "auto";
  if (faults.active()) {
    options.before_all_reduce = [&faults, rank](std::int64_t step) {
      faults.hit(rank, step, FaultPlace::before_allreduce);
    };
  }
  if (faults.expects(rank, FaultPlace::gradient))
    options.on_first_gradient = [&faults, rank](std::int64_t step, const Tensor& gradient) {
      damage(faults.hit(rank, step, FaultPlace::gradient), gradient);
    };
  return options;
}

// Whether some worker's micro-batch of a batch of `rows` is one row.
bool has_single_row(std::int64_t rows, int workers, std::int64_t accumulate) {
  const int parts = static_cast<int>(accumulate);
  for (int rank = 0; rank < workers; ++rank)
    for (int part = 0; part < parts; ++part)
      if (data::shard(data::shard(rows, rank, workers).size(), part, parts).size() == 1)
        return true;
  return false;
}

Variable dry_loss(const Variable& logits) {
  const Tensor targets = Tensor::empty(logits.context(), Shape{logits.shape()[0]}, DType::int64);
  kernels::kernels_for(logits.context()).fill(0, targets);
  return ops::cross_entropy(logits, targets).loss_sum;
}

}  // namespace

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

std::int64_t total_steps(const Config& config, std::int64_t steps_per_epoch) {
  const std::int64_t all = config.train.epochs * steps_per_epoch;
  return config.train.steps ? std::min(*config.train.steps, all) : all;
}

optim::Schedule make_schedule(const Config& config, std::int64_t steps_per_epoch,
                              std::int64_t total_steps) {
  optim::Schedule schedule;
  schedule.warmup_steps = config.schedule.warmup_steps;
  if (config.schedule.name == "step")
    schedule.shape =
        optim::Step{config.schedule.step_every * steps_per_epoch, config.schedule.factor};
  else if (config.schedule.name == "cosine")
    schedule.shape = optim::Cosine{total_steps, config.schedule.minimum};
  return schedule;
}

comm::CommunicatorOptions communicator_options(const Config& config) {
  comm::CommunicatorOptions options;
  options.timeout = milliseconds(config.comm.timeout);
  options.algorithm = config.comm.algorithm;
  options.tuning = config.comm.tuning.value_or("");
  options.check = config.comm.check == "off"    ? comm::AgreementCheck::off
                  : config.comm.check == "plan" ? comm::AgreementCheck::plan
                                                : comm::AgreementCheck::every;
  return options;
}

data::LoaderOptions loader_options(const Config& config, const Context& context,
                                   const comm::Communicator& communicator) {
  data::LoaderOptions options;
  options.rank = communicator.rank();
  options.world_size = communicator.size();
  options.batch_size = config.train.batch_size;
  options.shuffle = false;
  options.prefetch = config.data.prefetch;
  options.memory_limit = config.data.memory_limit;
  options.seed = *config.seed;
  options.dtype = config.train.dtype;
  options.timeout = milliseconds(config.comm.timeout);
  if (context.device().kind == DeviceKind::cuda)
    options.normalize =
        std::bind_front(&kernels::Kernels::normalize_channels, &kernels::kernels_for(context));
  return options;
}

data::LoaderOptions training_loader_options(const Config& config, const Context& context,
                                            const comm::Communicator& communicator,
                                            const FaultHook& faults) {
  data::LoaderOptions options = loader_options(config, context, communicator);
  options.shuffle = config.data.shuffle;
  options.drop_last = config.data.drop_last;
  if (faults.active())
    options.before_read = [&faults, rank = communicator.rank()](std::int64_t step) {
      faults.hit(rank, step + 1, FaultPlace::read);
    };
  return options;
}

void require_rows_for_batch_norm(const Config& config, nn::Module& model, std::int64_t samples,
                                 int workers) {
  std::string norm;
  model.for_each_module([&](const std::string& name, nn::Module& module) {
    if (norm.empty() && dynamic_cast<nn::BatchNorm1d*>(&module) != nullptr) norm = name;
  });
  if (norm.empty()) return;
  const std::int64_t batch = config.train.batch_size, rest = samples % batch;
  for (const std::int64_t rows : {samples < batch ? 0 : batch, config.data.drop_last ? 0 : rest})
    if (has_single_row(rows, workers, config.train.accumulate))
      throw ConfigError(fmt::format(
          "train.batch_size: {} worker{} and {} micro-batch{} cut a batch of {} rows into parts of "
          "which one is a single row, expected at least 2 in each: '{}' normalises by the "
          "deviation of a worker's rows. Choose another batch_size, number of workers or "
          "train.accumulate{}",
          workers, workers == 1 ? "" : "s", config.train.accumulate,
          config.train.accumulate == 1 ? "" : "es", rows, norm,
          rows == rest ? ", or data.drop_last: true for the last batch of an epoch" : ""));
}

std::unique_ptr<Replica> make_replica(const Config& config, Context& context,
                                      comm::Communicator& communicator,
                                      const models::ModelInput& input, const FaultHook& faults,
                                      const std::optional<comm::CostModel>& cost) {
  ReplicaOptions options = replica_options(config, context, faults, communicator.rank());
  options.cost = cost;
  auto model =
      models::make_model(context, config.model.name, config.model.options, input, *config.seed);
  if (config.data_parallel.buffers == "average" && model->named_buffers().empty())
    throw ConfigError(fmt::format(
        "data_parallel.buffers: found average, but this {} has no buffers, expected broadcast",
        config.model.name));
  std::vector<std::int64_t> extents{2};
  extents.insert(extents.end(), input.features.extents().begin(), input.features.extents().end());
  const Tensor example =
      Tensor::empty(context, Shape(std::span<const std::int64_t>(extents)), input.dtype);
  kernels::kernels_for(context).fill(0, example);
  return std::make_unique<Replica>(
      context, communicator, std::move(model), Variable(example), dry_loss,
      [&config](nn::ParameterArena& arena, const optim::Shard& shard) {
        return make_optimizer(config.optimizer, arena, shard);
      },
      options);
}

// What products read of the parameters in bfloat16 is written by the optimizer's step, beside the
// parameters of float32. Sharded, a rank's step has but a slice of them: there products round what
// they read.
void keep_working_copy(Replica& replica) {
  Context& context = replica.context();
  const auto precision = kernels::kernels_for(context).product_precision(context);
  if (precision == kernels::ProductPrecision::bfloat16 && !replica.shards_optimizer())
    replica.arena().keep_working_copy();
}

}  // namespace lockstep::train

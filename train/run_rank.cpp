#include "train/run_rank.h"

#include <fmt/format.h>

#include "comm/backend.h"
#include "framework/base/log.h"
#include "framework/base/units.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/device/cuda/cuda_context.h"
#include "framework/device/thread_pool.h"
#include "framework/kernels/kernels.h"
#include "framework/kernels/product_precision.h"
#include "train/fault.h"
#include "train/launch/launch.h"
#include "train/parallel/host_storage.h"
#include "train/placement.h"
#include "train/recipe.h"
#include "train/trainer.h"

namespace lockstep::train {
namespace {

Log make_log(const Config& config, const RunOptions& options, int rank) {
  return Log(base::log_level_from_name(config.run.log_level),
             rank == 0 ? "" : fmt::format("rank {}: ", rank), rank_log(options.run_folder, rank),
             /*console=*/rank == 0);
}

// There are more ranks than GPUs only where that was asked for.
std::unique_ptr<Context> make_context(const Config& config, const Worker& worker) {
  if (config.compute.device != "cuda")
    return device::make_cpu_context(threads_of_worker(config.compute, worker.world_size()));
  auto context =
      device::make_cuda_context(device::cuda_devices().of_rank(worker.rank()), worker.rank());
  const auto precision = kernels::product_precision_from_name(config.compute.products);
  if (precision != kernels::ProductPrecision::float32)
    kernels::kernels_for(*context).set_product_precision(*context, precision);
  return context;
}

std::string describe_kernels(const Context& context) {
  const Device device = context.device();
  if (device.kind == DeviceKind::cpu) return kernels::cpu_kernels_description();
  const auto gpu = device::describe_cuda_device(device.index);
  return fmt::format("CUDA {}.{} on {}, {}", gpu.compute_major, gpu.compute_minor,
                     to_string(device), gpu.name);
}

void log_arrival(const Config& config, const RunOptions& options,
                 const comm::Communicator& communicator, Context& context, const Log& log) {
  const int threads = context.threads().size();
  log.info("all {} ranks are there after {}, {} thread{} each", communicator.size(),
           base::format_duration(
               std::chrono::duration<double>(device::Clock::now() - options.started).count()),
           threads, threads == 1 ? "" : "s");
  log.info("backend {}, algorithm {}; kernels {}", communicator.backend(), config.comm.algorithm,
           describe_kernels(context));
}

// The launcher tells the user; a rank notes in its own log why it stopped.
Log record_of(const RunOptions& options, int rank) {
  return Log(base::LogLevel::info, "", rank_log(options.run_folder, rank), /*console=*/false);
}

// Which host a rank is to count as; empty: the one that it is on.
std::string imitated_host(const Config& config, int rank) {
  const auto ranks = config.comm.ranks_per_host;
  return ranks ? fmt::format("host {}", rank / *ranks) : "";
}

}  // namespace

void run_rank(const Config& config, const RunOptions& options, Worker& worker) {
  const FaultHook faults = FaultHook::from_environment();
  const Log log = make_log(config, options, worker.rank());
  faults.hit(worker.rank(), 0, FaultPlace::start);
  if (config.compute.pin == "on") take_place(config.compute, worker.rank(), worker.world_size());
  const auto context = make_context(config, worker);
  const auto start_timeout = milliseconds(config.comm.start_timeout);
  HostStorage storage(worker.join("data", start_timeout), milliseconds(config.comm.timeout));
  comm::CommunicatorOptions collective_options = communicator_options(config);
  const auto report = [&](const std::exception& error) { worker.report_failure(error); };
  collective_options.on_stuck = report;
  const auto communicator =
      comm::find_backend(config.comm.backend)
          .make({.rank = worker.rank(),
                 .size = worker.world_size(),
                 .device = context->device(),
                 .store = worker.store(),
                 .join = [&](const std::string& name, int rank,
                             int size) { return worker.join(name, rank, size, start_timeout); },
                 .prefix = "comm",
                 .interface = config.comm.interface,
                 .start_timeout = start_timeout,
                 .host = imitated_host(config, worker.rank()),
                 .on_stuck = report},
                collective_options);
  log_arrival(config, options, *communicator, *context, log);
  const auto end_waits = [&](int rank, const std::string& cause) {
    communicator->abort(rank, cause);
    storage.group().abort(rank, cause);
  };
  const auto subscription = worker.on_abort(end_waits);

  run_training(config, options, worker, faults, *context, *communicator, storage, log,
               [&](const std::exception& error) {
                 worker.report_failure(error);
                 const auto* lost = dynamic_cast<const RankError*>(&error);
                 end_waits(lost ? lost->rank() : worker.rank(), error.what());
                 record_of(options, worker.rank()).error("{}", error.what());
               });
}

}  // namespace lockstep::train

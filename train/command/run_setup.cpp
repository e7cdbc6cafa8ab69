#include "train/command/run_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/ring/ring.h"
#include "framework/base/error.h"
#include "train/checkpoint.h"
#include "train/command/mpi_run.h"
#include "train/config/document.h"
#include "train/config/rules.h"
#include "train/placement.h"
#include "train/tuning_file.h"

namespace lockstep::train {
namespace {

// The number of ranks: of --gpus, or of the mpirun that started this program.
int count_workers(const WorkersRequest& request,
                  const std::optional<comm::MpiEnvironment>& mpi_place) {
  if (!mpi_place) return request.workers;
  if (request.workers_given && request.workers != mpi_place->size)
    throw ConfigError(fmt::format(
        "--gpus: found {}, but mpirun started {} processes; leave it out or make them equal",
        request.workers, mpi_place->size));
  return mpi_place->size;
}

// Kernels of several processes take turns on a GPU, and those of collectives wait for each other.
LaunchKind choose_launcher(const std::optional<LaunchKind>& asked, const DeviceChoice& device) {
  if (!device.shares_gpus) return asked.value_or(LaunchKind::processes);
  if (asked == LaunchKind::processes)
    throw ConfigError(
        "--launcher: found processes, expected threads for workers that share a GPU, where what "
        "waits for each other has to run side by side");
  return LaunchKind::threads;
}

comm::BackendChoice choose_backend(const RunSetup& setup) {
  const Config::Comm& comm = setup.config.comm;
  const int ranks_per_host = comm.ranks_per_host.value_or(setup.workers);
  return comm::choose_backend(
      {.backend = comm.backend,
       .algorithm = comm.algorithm,
       .device = setup.device_kind(),
       .ranks_are_threads = setup.kind == LaunchKind::threads,
       .workers = setup.workers,
       .hosts = 1 + (setup.workers - 1) / ranks_per_host,
       .most_workers_on_host = std::min(setup.workers, ranks_per_host),
       .gpus_have_peer_access = comm::gpus_reach_each_other(setup.device.gpus),
       .workers_share_gpus = setup.device.shares_gpus});
}

// Sets comm.tuning. Returns a line for the log.
std::string resolve_tuning(Config& config, int workers, LaunchKind kind,
                           const std::string& checkpoint) {
  Config::Comm& comm = config.comm;
  if (comm.backend != "ring" || comm.algorithm != "auto") return {};
  if (config.compute.device == "cuda") {
    if (comm.tuning || comm.tuning_file)
      throw ConfigError(fmt::format("comm.{}: serves workers on CPUs, found workers on GPUs",
                                    comm.tuning ? "tuning" : "tuning_file"));
    return {};
  }
  if (const std::string file =
          take_tuning_file(comm, kind == LaunchKind::threads ? "threads" : "processes", workers);
      !file.empty())
    return fmt::format("all-reduce by the tuning file '{}': {}", file, *comm.tuning);
  if (comm.tuning || checkpoint.empty()) return {};
  const CheckpointSummary saved = summarize_checkpoint(checkpoint);
  if (saved.progress.world_size != workers) return {};
  // Not parse_config(): another version's configuration may have had other keys.
  for (const Entry& entry : read_document(saved.config, checkpoint).entries)
    if (entry.path == "comm.tuning" && entry.value)
      if (const auto* tuning = std::get_if<std::string>(&*entry.value)) comm.tuning = *tuning;
  return comm.tuning ? fmt::format("all-reduce as before the checkpoint: {}", *comm.tuning) : "";
}

}  // namespace

DeviceKind RunSetup::device_kind() const {
  return config.compute.device == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
}

std::vector<std::string> RunSetup::lines() const {
  std::vector<std::string> all{fmt::format("world size {}: {}", workers, device.line),
                               fmt::format("backend {}: {}", backend.name, backend.reason),
                               placement};
  if (!tuning.empty()) all.push_back(tuning);
  return all;
}

RunSetup choose_setup(const Config& given, const WorkersRequest& request) {
  RunSetup setup;
  setup.config = given;
  Config& config = setup.config;
  setup.endpoint = choose_endpoint(config.comm);
  setup.mpi_place = mpirun_place(config);
  setup.workers = count_workers(request, setup.mpi_place);
  setup.device = choose_device(config.compute.device, setup.workers, request.oversubscribe);
  config.compute.device = setup.device.device;
  setup.kind = choose_launcher(request.kind, setup.device);
  setup.backend = choose_backend(setup);
  config.comm.backend = setup.backend.name;
  if (setup.backend.name.find('+') == std::string::npos) config.comm.ranks_per_host.reset();
  // What goes with auto need not go with what was chosen.
  if (const auto broken = broken_rules(config); !broken.empty())
    throw ConfigError(fmt::format("{}: {}", broken.front().key, broken.front().text));
  return setup;
}

void choose_places_and_tuning(RunSetup& setup, const std::string& checkpoint) {
  const PlacementChoice placement = choose_placement(setup.config.compute, setup.workers);
  setup.config.compute.pin = placement.pin ? "on" : "off";
  setup.placement = placement.line;
  setup.tuning = resolve_tuning(setup.config, setup.workers, setup.kind, checkpoint);
}

}  // namespace lockstep::train

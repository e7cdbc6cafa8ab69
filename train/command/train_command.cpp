#include "train/command/train_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "comm/backend.h"
#include "comm/mpi/mpi.h"
#include "comm/ring/ring.h"
#include "framework/base/log.h"
#include "train/checkpoint.h"
#include "train/checkpoint_folder.h"
#include "train/command/host.h"
#include "train/command/mpi_run.h"
#include "train/command/run_folder.h"
#include "train/config/document.h"
#include "train/config/locate.h"
#include "train/config/print.h"
#include "train/config/rules.h"
#include "train/fault.h"
#include "train/placement.h"
#include "train/run_rank.h"
#include "train/tuning_file.h"

namespace lockstep::train {
namespace {

// What the launcher tells the ranks through the store.
constexpr const char* config_key = "run/config";
constexpr const char* folder_key = "run/folder";
constexpr const char* started_key = "run/started";    // nanoseconds on the steady clock
constexpr const char* resume_key = "run/resume";      // empty: from the beginning
constexpr const char* evaluate_key = "run/evaluate";  // not empty: nothing else is done
constexpr std::chrono::seconds settings_timeout{10};  // they are there before the ranks are

// What is to be run: a configuration, and the checkpoint to start from (none: empty).
struct Task {
  Config config;
  std::string name;  // of the configuration, for the run's folder
  std::string checkpoint;
};

Task task_of(const TrainRequest& request) {
  if (request.evaluate) {
    const std::string checkpoint = checkpoint_at(*request.evaluate, "train evaluate");
    // What suited that run: its folder's name, its machine and number of workers.
    std::vector<Override> overrides = {
        {"run.name", "null", "train evaluate"},
        {"compute.device", "auto", "train evaluate"},
        {"compute.pin", "auto", "train evaluate"},
        {"comm.backend", "auto", "train evaluate"},
        {"comm.algorithm", "auto", "train evaluate"},
        {"comm.tuning", "null", "train evaluate"},
        {"compute.products", "float32", "train evaluate"},
        {"compute.graph", "auto", "train evaluate"},
    };
    overrides.insert(overrides.end(), request.overrides.begin(), request.overrides.end());
    return {parse_config(summarize_checkpoint(checkpoint).config, checkpoint, overrides),
            "evaluate", checkpoint};
  }
  const std::string file = locate_config(request.config);
  Task task{load_config(file, request.overrides), file, ""};
  if (request.resume)
    task.checkpoint = find_checkpoint(*request.resume, task.config.run.folder, config_name(file));
  return task;
}

// The number of ranks: of --gpus, or of the mpirun that started this program.
int count_workers(const TrainRequest& request,
                  const std::optional<comm::MpiEnvironment>& mpi_place) {
  if (!mpi_place) return request.workers;
  if (request.workers_given && request.workers != mpi_place->size)
    throw ConfigError(fmt::format(
        "--gpus: found {}, but mpirun started {} processes; leave it out or make them equal",
        request.workers, mpi_place->size));
  return mpi_place->size;
}

// Of a configuration whose device has been chosen.
DeviceKind device_kind(const Config& config) {
  return config.compute.device == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
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

comm::BackendChoice choose_backend(const Config& config, int workers, LaunchKind kind,
                                   const DeviceChoice& device) {
  const int ranks_per_host = config.comm.ranks_per_host.value_or(workers);
  return comm::choose_backend({.backend = config.comm.backend,
                               .algorithm = config.comm.algorithm,
                               .device = device_kind(config),
                               .ranks_are_threads = kind == LaunchKind::threads,
                               .workers = workers,
                               .hosts = 1 + (workers - 1) / ranks_per_host,
                               .most_workers_on_host = std::min(workers, ranks_per_host),
                               .gpus_have_peer_access = comm::gpus_reach_each_other(device.gpus),
                               .workers_share_gpus = device.shares_gpus});
}

// Sets comm.tuning: what the tuning file says for this run; where the configuration says nothing,
// what a run of as many ranks that is resumed had, since it sets the order of summation. Returns a
// line for the log.
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

void log_start(const Log& log, const Config& config, int workers, const DeviceChoice& device,
               const comm::BackendChoice& backend, bool seed_was_drawn, bool under_mpirun) {
  log.info("world size {}: {}", workers, device.line);
  log.info("backend {}: {}", backend.name, backend.reason);
  if (seed_was_drawn) log.info("no seed given, drew {}", *config.seed);
  if (const auto ignored = foreign_variables(); !ignored.empty() && !under_mpirun) {
    log.info("ignored from the environment, the command line goes before it: {}",
             fmt::join(ignored, ", "));
  }
}

}  // namespace

int train(const TrainRequest& request) {
  const auto started = std::chrono::steady_clock::now();
  const auto [given, name, checkpoint] = task_of(request);
  Config config = given;
  static_cast<void>(FaultHook::from_environment());  // understood before anything starts
  const std::optional<Endpoint> endpoint = choose_endpoint(config.comm);
  const std::optional<comm::MpiEnvironment> mpi_place = mpirun_place(config);
  const int workers = count_workers(request, mpi_place);
  const DeviceChoice device = choose_device(config.compute.device, workers, request.oversubscribe);
  config.compute.device = device.device;
  const LaunchKind kind = choose_launcher(request.kind, device);
  const comm::BackendChoice backend = choose_backend(config, workers, kind, device);
  config.comm.backend = backend.name;
  if (backend.name.find('+') == std::string::npos) config.comm.ranks_per_host.reset();
  // What goes with auto need not go with what was chosen.
  if (const auto broken = broken_rules(config); !broken.empty())
    throw ConfigError(fmt::format("{}: {}", broken.front().key, broken.front().text));
  if (mpi_place && mpi_place->rank > 0) return lend_mpi_seat(*mpi_place, config);
  const PlacementChoice placement = choose_placement(config.compute, workers);
  config.compute.pin = placement.pin ? "on" : "off";
  const bool draw_seed = !config.seed;
  if (draw_seed) config.seed = std::random_device()();

  const std::string tuning_line = resolve_tuning(config, workers, kind, checkpoint);
  const std::string folder = make_run_folder(config, name);
  const Log log(base::log_level_from_name(config.run.log_level), "", folder + "/launcher.log");
  log_start(log, config, workers, device, backend, draw_seed, mpi_place.has_value());
  log.info("{}", placement.line);
  if (!tuning_line.empty()) log.info("{}", tuning_line);
  log.info("files of this run: {}", folder);
  LaunchOptions options;
  options.workers = workers;
  options.kind = kind;
  options.settings = {
      {config_key, to_yaml(config)},
      {folder_key, folder},
      {started_key, std::to_string(started.time_since_epoch() / std::chrono::nanoseconds(1))},
      {resume_key, checkpoint},
      {evaluate_key, request.evaluate ? "only" : ""}};
  options.log_folder = folder;
  options.listen = endpoint;
  std::optional<MpiSeats> seats;  // outlives the ranks
  if (comm::find_backend(backend.name).takes_mpi_seats) {
    seats.emplace(mpi_place, workers, config, folder, log);
    options.settings[comm::mpi_seats_key] = seats->address();
  }
  return launch(options, train_rank, log);
}

void train_rank(Worker& worker) {
  const auto setting = [&](const char* key) { return worker.store().get(key, settings_timeout); };
  const Config config = parse_config(setting(config_key), "effective configuration");
  const std::chrono::nanoseconds started(std::stoll(setting(started_key)));
  RunOptions options{.run_folder = setting(folder_key),
                     .resume = std::nullopt,
                     .evaluate_only = !setting(evaluate_key).empty(),
                     .started = std::chrono::steady_clock::time_point(started)};
  if (std::string checkpoint = setting(resume_key); !checkpoint.empty()) {
    options.resume = std::move(checkpoint);
  }
  run_rank(config, options, worker);
}

}  // namespace lockstep::train

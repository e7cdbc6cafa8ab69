#include "train/command/train_command.h"

#include <fmt/format.h>

#include <optional>
#include <random>
#include <utility>

#include "comm/backend.h"
#include "comm/mpi/mpi.h"
#include "framework/base/log.h"
#include "train/checkpoint.h"
#include "train/checkpoint_folder.h"
#include "train/command/host.h"
#include "train/command/mpi_run.h"
#include "train/command/run_folder.h"
#include "train/command/run_setup.h"
#include "train/config/locate.h"
#include "train/config/print.h"
#include "train/fault.h"
#include "train/run_rank.h"

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

std::string ignored_variables(bool under_mpirun) {
  const auto ignored = foreign_variables();
  if (ignored.empty() || under_mpirun) return {};
  return fmt::format("ignored from the environment, the command line goes before it: {}",
                     fmt::join(ignored, ", "));
}

void log_start(const Log& log, const RunSetup& setup, bool seed_was_drawn) {
  for (const std::string& line : setup.lines()) log.info("{}", line);
  if (seed_was_drawn) log.info("no seed given, drew {}", *setup.config.seed);
  if (const std::string line = ignored_variables(setup.mpi_place.has_value()); !line.empty())
    log.info("{}", line);
}

}  // namespace

int train(const TrainRequest& request) {
  const auto started = std::chrono::steady_clock::now();
  const auto [given, name, checkpoint] = task_of(request);
  static_cast<void>(FaultHook::from_environment());  // understood before anything starts
  RunSetup setup = choose_setup(given, request);
  Config& config = setup.config;
  const auto& mpi_place = setup.mpi_place;
  if (mpi_place && mpi_place->rank > 0) return lend_mpi_seat(*mpi_place, config);
  choose_places_and_tuning(setup, checkpoint);
  const bool draw_seed = !config.seed;
  if (draw_seed) config.seed = std::random_device()();

  const std::string folder = make_run_folder(config, name);
  const Log log(base::log_level_from_name(config.run.log_level), "", folder + "/launcher.log");
  log_start(log, setup, draw_seed);
  log.info("files of this run: {}", folder);
  LaunchOptions options;
  options.workers = setup.workers;
  options.kind = setup.kind;
  options.settings = {
      {config_key, to_yaml(config)},
      {folder_key, folder},
      {started_key, std::to_string(started.time_since_epoch() / std::chrono::nanoseconds(1))},
      {resume_key, checkpoint},
      {evaluate_key, request.evaluate ? "only" : ""}};
  options.log_folder = folder;
  options.listen = setup.endpoint;
  std::optional<MpiSeats> seats;  // outlives the ranks
  if (comm::find_backend(config.comm.backend).takes_mpi_seats) {
    seats.emplace(mpi_place, setup.workers, config, folder, log);
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

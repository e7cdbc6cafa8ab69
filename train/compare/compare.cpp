#include "train/compare/compare.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "train/command/run_folder.h"
#include "train/compare/comparison_report.h"
#include "train/config/locate.h"
#include "train/exit_code.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// All that the rounds of one contender recorded.
struct Recorded {
  std::vector<double> step, compute, communication, exposed, start_up;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Starts this program again with `arguments` and output to `log`; returns its exit code.
int run_program(std::vector<std::string> arguments, const std::string& log) {
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, "/proc/self/exe", &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw StartupError(fmt::format("cannot start a run: {}", std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// All that sets a run apart from the configuration, but for its folder.
std::vector<Override> overrides_of(const CompareOptions& options, const Contender& contender) {
  std::vector<Override> all = options.overrides;
  const auto set = [&](const std::string& key, const std::string& value) {
    all.push_back({key, value, "train compare"});
  };
  set("comm.backend", contender.backend);
  set("comm.algorithm", contender.algorithm);
  set("train.steps", std::to_string(options.steps));
  set("train.evaluate_every", "0");
  set("checkpoint.every_epochs", "null");
  set("checkpoint.every_steps", "null");
  set("consistency.every", "1");
  return all;
}

std::vector<std::string> run_arguments(const CompareOptions& options, const Contender& contender,
                                       const std::string& folder, const std::string& name) {
  std::vector<std::string> arguments{"train", "--config", options.config, "--gpus",
                                     std::to_string(options.workers)};
  const auto set = [&](const std::string& key, const std::string& value) {
    arguments.push_back("--set");
    arguments.push_back(key + "=" + value);
  };
  for (const auto& override : overrides_of(options, contender)) set(override.path, override.value);
  set("run.folder", folder);
  set("run.name", name);
  return arguments;
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) last = line;
  return last;
}

void read_round(const std::string& path, Recorded& recorded, Measured& measured) {
  std::ifstream file(path);
  std::int64_t steps = 0;
  measured.weights.clear();
  for (std::string line; std::getline(file, line);) {
    const Json record = Json::parse(line);
    const std::string kind = record.at("kind");
    if (kind == "start") recorded.start_up.push_back(record.at("start_up_seconds"));
    if (kind == "weights") measured.weights.push_back(record.at("digest"));
    if (kind != "step") continue;
    measured.final_loss = record.at("loss");
    measured.bytes = record.at("reduced_bytes");
    if (++steps <= warm_up_steps) continue;
    recorded.step.push_back(record.at("seconds"));
    recorded.compute.push_back(record.at("parts").at("compute"));
    recorded.communication.push_back(record.at("communication_seconds"));
    recorded.exposed.push_back(record.at("exposed_seconds"));
  }
  if (steps <= warm_up_steps)
    measured.failure = fmt::format(
        "it ended after {} update{}, of which the first {} are not counted; expected more epochs "
        "or "
        "data",
        steps, steps == 1 ? "" : "s", warm_up_steps);
}

std::string make_comparison_folder(const CompareOptions& options) {
  const std::string file = locate_config(options.config);
  const Config config = load_config(file, options.overrides);
  // What a later run would be refused for is found before the first.
  for (const Contender& contender : options.contenders)
    load_config(file, overrides_of(options, contender));
  const std::string name = fmt::format("compare-{}-{:%Y%m%d-%H%M%S}", config_name(file),
                                       fmt::localtime(std::time(nullptr)));
  fs::path folder = fs::path(config.run.folder) / name;
  for (int i = 2; fs::exists(folder); ++i) folder.replace_filename(fmt::format("{}-{}", name, i));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw CheckpointError(
        fmt::format("cannot make the folder '{}': {}", folder.string(), error.message()));
  return folder;
}

}  // namespace

std::string Contender::name() const {
  return backend + " " + algorithm;
}

double Measured::bus_bandwidth(int workers) const {
  if (communication <= 0) return 0;
  return bytes / communication * 2 * (workers - 1) / workers;
}

std::int64_t first_difference(const Measured& reference, const Measured& other) {
  const std::size_t steps = std::min(reference.weights.size(), other.weights.size());
  for (std::size_t step = 0; step < steps; ++step)
    if (reference.weights[step] != other.weights[step]) return static_cast<std::int64_t>(step) + 1;
  return 0;
}

int compare(const CompareOptions& options) {
  const std::string folder = make_comparison_folder(options);
  std::vector<Measured> measured(options.contenders.size());
  std::vector<Recorded> recorded(options.contenders.size());
  int exit_code = exit_done;
  for (int round = 1; round <= options.rounds; ++round) {
    for (std::size_t c = 0; c < options.contenders.size(); ++c) {
      const Contender& contender = options.contenders[c];
      measured[c].contender = contender;
      if (!measured[c].failure.empty()) continue;
      const std::string name =
          fmt::format("{}-{}-{}", contender.backend, contender.algorithm, round);
      fmt::print("round {}/{}  {}\n", round, options.rounds, contender.name());
      std::fflush(stdout);
      const std::string log = folder + "/" + name + ".log";
      const int code = run_program(run_arguments(options, contender, folder, name), log);
      if (code != exit_done) {
        measured[c].failure = last_line(log);
        if (exit_code == exit_done) exit_code = code;
        continue;
      }
      read_round(fmt::format("{}/{}/metrics.jsonl", folder, name), recorded[c], measured[c]);
      if (!measured[c].failure.empty() && exit_code == exit_done) exit_code = exit_usage;
    }
  }
  for (std::size_t c = 0; c < measured.size(); ++c) {
    measured[c].step = median(recorded[c].step);
    measured[c].compute = median(recorded[c].compute);
    measured[c].communication = median(recorded[c].communication);
    measured[c].exposed = median(recorded[c].exposed);
    measured[c].start_up = median(recorded[c].start_up);
  }
  const ComparisonReport report{options.config, options.workers, options.steps, options.rounds,
                                measured};
  fmt::print("\n{}", report.table());
  std::ofstream(folder + "/comparison.json") << report.json();
  std::ofstream(folder + "/comparison.html") << report.html();
  fmt::print("\nfiles of this comparison: {}\n", folder);
  return exit_code;
}

}  // namespace lockstep::train

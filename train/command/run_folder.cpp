#include "train/command/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "framework/base/error.h"
#include "train/config/print.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

// Whether it was not there before.
bool make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const bool is_new = !error && fs::create_directory(path, error);
  if (error) {
    throw CheckpointError(
        fmt::format("cannot make the run's folder '{}': {}", path.string(), error.message()));
  }
  return is_new;
}

fs::path make_named(const Config& config) {
  fs::path path = fs::path(config.run.folder) / *config.run.name;
  if (fs::exists(path) || !make_folder(path)) {
    throw ConfigError(fmt::format("run.name: there is a run '{}' already", path.string()));
  }
  return path;
}

fs::path make_timed(const Config& config, const std::string& config_file) {
  const std::string name = fmt::format("{}-{:%Y%m%d-%H%M%S}", config_name(config_file),
                                       fmt::localtime(std::time(nullptr)));
  fs::path path = fs::path(config.run.folder) / name;
  // Another run may start in the same second.
  for (int i = 2; !make_folder(path); ++i) path.replace_filename(fmt::format("{}-{}", name, i));
  return path;
}

}  // namespace

std::string config_name(const std::string& config_file) {
  return fs::path(config_file).stem();
}

std::string make_run_folder(const Config& config, const std::string& config_file) {
  const fs::path folder = config.run.name ? make_named(config) : make_timed(config, config_file);
  const fs::path path = folder / "config.yaml";
  std::ofstream file(path);
  file << to_yaml(config) << std::flush;
  if (!file) {
    throw CheckpointError(
        fmt::format("cannot write '{}': {}", path.string(), std::strerror(errno)));
  }
  return folder;
}

}  // namespace lockstep::train

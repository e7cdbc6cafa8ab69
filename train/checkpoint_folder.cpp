#include "train/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";
constexpr std::string_view suffix = ".h5";

// "step-00000123.h5": the order of names is the order of steps.
std::string file_name(std::int64_t step) {
  return fmt::format("{}{:08}{}", prefix, step, suffix);
}

bool is_checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(prefix) && name.ends_with(suffix);
}

// Complete ones, oldest first. A file under its final name is complete: it was renamed when it was.
std::vector<std::string> checkpoints_in(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (is_checkpoint(entry.path())) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Found out now rather than after the first epoch.
void require_writable(const fs::path& folder) {
  const std::string probe = (folder / fmt::format(".probe-{}", getpid())).string();
  const int descriptor = open(probe.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0)
    throw CheckpointError(fmt::format("cannot write to the checkpoint folder '{}': {}",
                                      folder.string(), std::strerror(errno)));
  close(descriptor);
  fs::remove(probe);
}

}  // namespace

CheckpointFolder::CheckpointFolder(const CheckpointFolderOptions& options, const Log& log)
    : options_(options), log_(log) {
  const fs::path folder = options_.path;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw CheckpointError(fmt::format("cannot create the checkpoint folder '{}': {}", options_.path,
                                      error.message()));
  require_writable(folder);
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".tmp") fs::remove(entry.path());
}

void CheckpointFolder::save(Replica& replica, const OptimizerState& optimizer,
                            const Progress& progress, const std::string& config,
                            const std::vector<SavedState>& hook_state) {
  const std::string path = (fs::path(options_.path) / file_name(progress.steps_done)).string();
  try {
    save_checkpoint(path, replica, optimizer, progress, config, hook_state);
  } catch (const CheckpointError& error) {
    if (options_.stop_on_error) throw;
    last_error_ = error.what();
    log_.error("{}; going on, as checkpoint.on_error is continue", error.what());
    return;
  }
  last_error_.reset();
  log_.info("saved '{}'", path);
  remove_old();
}

void CheckpointFolder::require_last_save() const {
  if (last_error_)
    throw CheckpointError(fmt::format("the last checkpoint is missing: {}", *last_error_));
}

void CheckpointFolder::remove_old() const {
  const auto paths = checkpoints_in(options_.path);
  const auto keep = static_cast<std::size_t>(options_.keep_last);
  for (std::size_t i = 0; i + keep < paths.size(); ++i) {
    std::error_code ignored;  // one too many is no reason to end a run
    fs::remove(paths[i], ignored);
  }
}

std::optional<std::string> newest_checkpoint(const std::string& folder) {
  const auto paths = checkpoints_in(folder);
  if (paths.empty()) return {};
  return paths.back();
}

std::string checkpoint_at(const std::string& path, std::string_view argument) {
  if (!fs::exists(path)) throw CheckpointError(fmt::format("{} '{}': not found", argument, path));
  if (!fs::is_directory(path)) return path;
  for (const auto& folder : {fs::path(path) / "checkpoints", fs::path(path)})
    if (const auto newest = newest_checkpoint(folder.string())) return *newest;
  throw CheckpointError(
      fmt::format("{} '{}': no complete checkpoint in this folder", argument, path));
}

std::string find_checkpoint(const std::string& resume, const std::string& runs_folder,
                            const std::string& config_name) {
  if (!resume.empty()) return checkpoint_at(resume, "--resume");
  std::optional<fs::path> newest;
  fs::file_time_type newest_time;
  std::error_code ignored;
  for (const auto& run : fs::directory_iterator(runs_folder, ignored)) {
    if (!run.path().filename().string().starts_with(config_name + "-")) continue;
    const auto checkpoint = newest_checkpoint((run.path() / "checkpoints").string());
    if (!checkpoint) continue;
    const auto time = fs::last_write_time(*checkpoint, ignored);
    if (!newest || time > newest_time) {
      newest = *checkpoint;
      newest_time = time;
    }
  }
  if (!newest)
    throw CheckpointError(
        fmt::format("--resume: no checkpoint of a run of '{}' in '{}'", config_name, runs_folder));
  return newest->string();
}

}  // namespace lockstep::train

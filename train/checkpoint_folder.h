// CheckpointFolder: the checkpoints of one run, and which of them to keep.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/base/log.h"
#include "train/checkpoint.h"

namespace lockstep::train {

struct CheckpointFolderOptions {
  std::string path;
  int keep_last = 2;
  // Whether a save that failed ends the run at once, or only makes it end with an error if no later
  // one succeeds.
  bool stop_on_error = true;
};

// One rank of the run has one; only that rank creates, writes and deletes. Throws CheckpointError.
class CheckpointFolder {
 public:
  // Creates the folder, tries to write to it, and removes what an interrupted save left.
  CheckpointFolder(const CheckpointFolderOptions& options, const Log& log);

  void save(Replica& replica, const OptimizerState& optimizer, const Progress& progress,
            const std::string& config, const std::vector<SavedState>& hook_state = {});
  // Throws what the last save failed with, if it failed.
  void require_last_save() const;

 private:
  void remove_old() const;

  CheckpointFolderOptions options_;
  const Log& log_;
  std::optional<std::string> last_error_;
};

// The newest complete checkpoint in a folder of checkpoints, if there is one.
std::optional<std::string> newest_checkpoint(const std::string& folder);

// The checkpoint that `path` means: the file, or the newest of a run's folder or its folder of
// checkpoints. CheckpointError, which names the `argument` that said so.
std::string checkpoint_at(const std::string& path, std::string_view argument);

// What --resume means: a checkpoint file, a run's folder or its folder of checkpoints (the newest
// there); an empty text is the newest checkpoint of the newest run of `config_name` in
// `runs_folder` that has one. Throws CheckpointError saying where it looked.
std::string find_checkpoint(const std::string& resume, const std::string& runs_folder,
                            const std::string& config_name);

}  // namespace lockstep::train

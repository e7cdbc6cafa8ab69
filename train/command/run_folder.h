// The folder of a run: <run.folder>/<config>-<time>, or <run.folder>/<run.name>.
#pragma once

#include <string>

#include "train/config/config.h"

namespace lockstep::train {

// "mlp" for configs/mlp.yaml.
std::string config_name(const std::string& config_file);

// Makes the folder, one that was not there before, and writes the effective configuration into it
// as config.yaml. Throws CheckpointError with path and reason; ConfigError when a folder of the
// given run.name is there already.
std::string make_run_folder(const Config& config, const std::string& config_file);

}  // namespace lockstep::train

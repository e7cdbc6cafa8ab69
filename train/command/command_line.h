// The command line of `train`, read and checked.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "train/command/check_command.h"
#include "train/command/plan_command.h"
#include "train/command/run_setup.h"
#include "train/compare/compare.h"
#include "train/config/load.h"

namespace lockstep::train {

struct TrainRequest : WorkersRequest {
  std::string config;  // as given
  std::vector<Override> overrides;
  std::optional<std::string> resume;  // empty: the newest checkpoint
  // Instead of training: a checkpoint to evaluate, which holds its own configuration.
  std::optional<std::string> evaluate;
};

struct ReferenceRequest {};  // docs/configuration.md

struct InspectRequest {
  std::string checkpoint;
};

struct PrintRequest {  // help, version
  std::string text;
};

using Request = std::variant<TrainRequest, CompareOptions, PlanRequest, CheckConfigRequest,
                             ReferenceRequest, InspectRequest, PrintRequest>;

// Throws ConfigError saying which argument is wrong and what is expected; an unknown one with the
// nearest that there is.
Request parse_command_line(int argc, const char* const* argv);

}  // namespace lockstep::train

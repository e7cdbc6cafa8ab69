// What a run comes to on this machine, before any of it exists: the devices, the kind of ranks, the
// backend, the workers' places. `train` does that first, `train check-config --gpus N` and
// `train plan` do only that, so that all three refuse the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/backend.h"
#include "comm/mpi/seats.h"
#include "train/command/host.h"
#include "train/config/config.h"
#include "train/launch/launch.h"

namespace lockstep::train {

// Of the command line.
struct WorkersRequest {
  int workers = 1;
  bool workers_given = false;      // by --gpus
  std::optional<LaunchKind> kind;  // by --launcher
  bool oversubscribe = false;
};

struct RunSetup {
  Config config;  // with what was chosen in the place of auto
  int workers = 1;
  LaunchKind kind = LaunchKind::processes;
  DeviceChoice device;
  comm::BackendChoice backend;
  std::optional<Endpoint> endpoint;
  std::optional<comm::MpiEnvironment> mpi_place;
  std::string placement;  // a line that says so
  std::string tuning;     // another, or nothing

  DeviceKind device_kind() const;
  // What was chosen and why, for a log.
  std::vector<std::string> lines() const;
};

// All but the last two. Throws ConfigError and StartupError. Initialises no GPU.
RunSetup choose_setup(const Config& config, const WorkersRequest& request);

// The last two: where the workers run, and comm.tuning, which is what the tuning file says for this
// run; where the configuration says nothing, what a run of as many ranks that is resumed from
// `checkpoint` (none: empty) had, since it sets the order of summation.
void choose_places_and_tuning(RunSetup& setup, const std::string& checkpoint);

}  // namespace lockstep::train

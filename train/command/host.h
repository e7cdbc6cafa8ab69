// What the machine and the environment say about a run: devices, network interfaces, what another
// launcher left behind.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/launch/launch.h"

namespace lockstep::train {

struct DeviceChoice {
  std::string device;          // cuda or cpu
  std::string line;            // says so
  std::vector<int> gpus = {};  // that the workers take, in turns
  bool shares_gpus = false;
};

// `asked`: compute.device. Throws StartupError when there are GPUs, or they are asked for, but not
// enough for all workers, unless `oversubscribe` lets several share one. Initialises no GPU.
DeviceChoice choose_device(const std::string& asked, int workers, bool oversubscribe);

// Where the store has to listen; nothing when a private socket does. Throws ConfigError listing the
// interfaces there are. Looks up no name.
std::optional<Endpoint> choose_endpoint(const Config::Comm& comm);

// The variables with which other launchers (torchrun, mpirun, srun) tell a program its rank and
// world, as far as they are set. Here the command line says both.
std::vector<std::string> foreign_variables();

}  // namespace lockstep::train

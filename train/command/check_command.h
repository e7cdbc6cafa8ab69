// `train check-config`: whether a configuration is right, and what it comes to.
#pragma once

#include <string>
#include <vector>

#include "train/command/run_setup.h"
#include "train/config/load.h"

namespace lockstep::train {

struct CheckConfigRequest : WorkersRequest {
  std::string config;
  std::vector<Override> overrides;
};

// Prints the effective configuration. With workers given it is what a run of so many on this
// machine comes to, and what `train` would refuse here throws as there. Without, the file alone is
// checked, which may be meant for another machine: what `train` would refuse here is a warning.
int check_config(const CheckConfigRequest& request);

}  // namespace lockstep::train

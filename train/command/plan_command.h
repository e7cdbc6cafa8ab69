// `train plan`: how the gradients of a configuration's model are cut into buckets, without
// training.
#pragma once

#include <string>
#include <vector>

#include "train/command/run_setup.h"
#include "train/config/load.h"

namespace lockstep::train {

struct PlanRequest : WorkersRequest {
  std::string config;
  std::vector<Override> overrides;
  bool json = false;
};

// Prints the plan as a table or as one JSON document. Needs the data set, whose shape the model
// takes, and as much memory as one worker. Throws as a run would.
int print_plan(const PlanRequest& request);

}  // namespace lockstep::train

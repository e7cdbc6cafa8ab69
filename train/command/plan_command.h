// `train plan`: how the gradients of a configuration's model are cut into buckets, without
// training.
#pragma once

#include <string>
#include <vector>

#include "train/config/load.h"

namespace lockstep::train {

struct PlanRequest {
  std::string config;
  std::vector<Override> overrides;
  int workers = 1;
  bool json = false;
};

// Prints the plan as a table or as one JSON document. Needs the data set, whose shape the model
// takes, and as much memory as one worker. Throws as a run would.
int print_plan(const PlanRequest& request);

}  // namespace lockstep::train

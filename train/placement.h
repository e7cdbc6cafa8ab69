// Where the workers of this host run: how many compute threads each has, and which cores it stays
// on (compute.threads, compute.pin). Neither ever changes a result.
#pragma once

#include <string>

#include "train/config/config.h"

namespace lockstep::train {

// The cores that this thread may use.
int usable_cores();

// Compute threads of each worker.
int threads_of_worker(const Config::Compute& compute, int workers);

struct PlacementChoice {
  bool pin = false;
  std::string line;  // for the log
};

// For `workers` on this host, from the cores that this thread may use. Throws ConfigError where
// `compute.pin: on` asks for what is not possible here.
PlacementChoice choose_placement(const Config::Compute& compute, int workers);

// Confines the calling thread, which may use the cores that choose_placement() saw, and the threads
// that it starts to the cores of one worker.
void take_place(const Config::Compute& compute, int worker, int workers);

}  // namespace lockstep::train

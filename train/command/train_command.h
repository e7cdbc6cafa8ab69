// `train --config ...`: from the request to the exit code of the run.
#pragma once

#include "train/command/command_line.h"
#include "train/launch/worker.h"

namespace lockstep::train {

// Throws the error types of framework/base/error.h for what is wrong before the first rank starts.
int train(const TrainRequest& request);

// What each rank runs.
void train_rank(Worker& worker);

}  // namespace lockstep::train

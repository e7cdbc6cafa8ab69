// The training loop of one rank, once everything that it stands on is there.
#pragma once

#include <exception>
#include <functional>

#include "comm/communicator.h"
#include "framework/base/log.h"
#include "framework/device/context.h"
#include "train/fault.h"
#include "train/parallel/host_storage.h"
#include "train/run_rank.h"

namespace lockstep::train {

using FailureHandler = std::function<void(const std::exception& error)>;

// Trains, or evaluates, as run_rank() does. `on_failure` is told of an error while all that waits
// for other ranks when it is torn down is still there; then the error is thrown on.
void run_training(const Config& config, const RunOptions& options, Worker& worker,
                  const FaultHook& faults, Context& context, comm::Communicator& communicator,
                  HostStorage& storage, const Log& log, const FailureHandler& on_failure);

}  // namespace lockstep::train

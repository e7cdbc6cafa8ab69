// From the configuration to the objects it describes.
#pragma once

#include <chrono>
#include <optional>

#include "comm/communicator.h"
#include "data/loader.h"
#include "framework/optim/schedule.h"
#include "models/registry.h"
#include "train/config/config.h"
#include "train/fault.h"
#include "train/parallel/replica.h"

namespace lockstep::train {

// A time as the configuration has it, rounded up.
std::chrono::milliseconds milliseconds(double seconds);

// Updates of the whole run: all epochs, or train.steps if that ends it sooner.
std::int64_t total_steps(const Config& config, std::int64_t steps_per_epoch);

optim::Schedule make_schedule(const Config& config, std::int64_t steps_per_epoch,
                              std::int64_t total_steps);

comm::CommunicatorOptions communicator_options(const Config& config);

// Of the test data, and of the training data, whose loader the faults outlive.
data::LoaderOptions loader_options(const Config& config, const Context& context,
                                   const comm::Communicator& communicator);
data::LoaderOptions training_loader_options(const Config& config, const Context& context,
                                            const comm::Communicator& communicator,
                                            const FaultHook& faults);

// Throws ConfigError when a worker would have a single row of some batch to normalise by: a model
// with batch norm cannot train on that, and it should not take an epoch to find out.
void require_rows_for_batch_norm(const Config& config, nn::Module& model, std::int64_t samples,
                                 int workers);

// Collective: the model for data of this kind, initialised from the seed, as this rank's replica.
// `cost`: see ReplicaOptions.
std::unique_ptr<Replica> make_replica(const Config& config, Context& context,
                                      comm::Communicator& communicator,
                                      const models::ModelInput& input, const FaultHook& faults,
                                      const std::optional<comm::CostModel>& cost = std::nullopt);

// For training on a GPU that multiplies in bfloat16, once the parameters are what it starts with.
void keep_working_copy(Replica& replica);

}  // namespace lockstep::train

// power_sgd on GPUs: cuBLAS and kernels on the communication stream.
#pragma once

#include "train/parallel/hooks/power_sgd.h"

namespace lockstep::train {

// UsageError in a build without a toolkit.
std::unique_ptr<comm::BucketReduction> make_cuda_power_sgd_hook(comm::Communicator& communicator,
                                                                const nn::ParameterArena& arena,
                                                                const comm::BucketPlan& plan,
                                                                const PowerSgdOptions& options);

}  // namespace lockstep::train

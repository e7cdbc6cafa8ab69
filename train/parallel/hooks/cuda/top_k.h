// top_k on GPUs, as kernels on the communication stream.
#pragma once

#include "train/parallel/hooks/top_k.h"

namespace lockstep::train {

// Takes the same elements as on the CPU, to the bit. UsageError in a build without a toolkit.
std::unique_ptr<comm::BucketReduction> make_cuda_top_k_hook(comm::Communicator& communicator,
                                                            const nn::ParameterArena& arena,
                                                            const comm::BucketPlan& plan,
                                                            const TopKOptions& options);

}  // namespace lockstep::train

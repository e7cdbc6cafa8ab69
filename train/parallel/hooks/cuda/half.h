// The 16-bit hooks on GPUs, as kernels on the communication stream.
#pragma once

#include <memory>

#include "comm/bucketing/bucket_plan.h"
#include "comm/bucketing/bucket_reduction.h"
#include "framework/device/context.h"

namespace lockstep::train {

// Half is bfloat16 or float16. UsageError in a build without a toolkit.
template <class Half>
std::unique_ptr<comm::BucketReduction> make_cuda_half_hook(comm::Communicator& communicator,
                                                           Context& context,
                                                           const comm::BucketPlan& plan);

}  // namespace lockstep::train

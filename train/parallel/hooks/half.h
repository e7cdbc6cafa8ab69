// Gradients as 16-bit floats on the wire: half the bytes, summed in float and rounded once.
#pragma once

#include <memory>

#include "comm/bucketing/bucket_plan.h"
#include "comm/bucketing/bucket_reduction.h"
#include "framework/nn/parameter_arena.h"

namespace lockstep::train {

// bfloat16 has float's range, so that gradients are rounded to 8 bits and that is all.
std::unique_ptr<comm::BucketReduction> make_bf16_hook(comm::Communicator& communicator,
                                                      const nn::ParameterArena& arena,
                                                      const comm::BucketPlan& plan);

// float16 has 11 bits and a narrow range. Each bucket is scaled by a power of two such that the
// largest magnitude in it over all ranks, times the number of ranks, fits: a sum cannot overflow,
// and what vanishes is 2^-36 of the largest value or less on 8 ranks. Costs one all-reduce of one
// element more for each bucket.
std::unique_ptr<comm::BucketReduction> make_fp16_hook(comm::Communicator& communicator,
                                                      const nn::ParameterArena& arena,
                                                      const comm::BucketPlan& plan);

}  // namespace lockstep::train

// Top-k sparsification: of each bucket only the largest gradients travel, the others wait in the
// residual until they have grown (Aji, Heafield: "Sparse communication for distributed gradient
// descent", EMNLP 2017; Lin et al.: "Deep gradient compression", ICLR 2018, without its warm-up
// and momentum correction).
#pragma once

#include <memory>

#include "comm/bucketing/bucket_plan.h"
#include "comm/bucketing/bucket_reduction.h"
#include "framework/nn/parameter_arena.h"

namespace lockstep::train {

struct TopKOptions {
  double ratio = 0.01;   // of a bucket's elements, rounded up; in (0, 1]
  bool can_undo = true;  // steps may turn out not to be used
};

// Each rank gives index and value of its k largest elements (of equal ones the first) of gradient
// plus residual; every rank adds those of all ranks up in the order of the ranks. A rank with an
// element that is not finite sends NaN, so that all ranks see it. Indices and values of n ranks
// reach every rank, so this takes less than an all-reduce as long as the ratio is below 1 / n.
std::unique_ptr<comm::BucketReduction> make_top_k_hook(comm::Communicator& communicator,
                                                       const nn::ParameterArena& arena,
                                                       const comm::BucketPlan& plan,
                                                       const TopKOptions& options);

}  // namespace lockstep::train

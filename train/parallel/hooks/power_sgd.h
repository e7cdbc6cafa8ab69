// PowerSGD: a gradient matrix travels as a product of two thin ones (Vogels, Karimireddy, Jaggi:
// "PowerSGD: practical low-rank gradient compression for distributed optimization", NeurIPS 2019).
//
// One step of power iteration on M, the gradient plus the residual, starting from the basis Q of
// the step before: P = M Q, summed over the ranks and orthonormalised; Q = M^T P, summed over the
// ranks; the result is P Q^T, and each rank keeps M - P Q^T, with its own Q, as residual.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/bucketing/bucket_plan.h"
#include "comm/bucketing/bucket_reduction.h"
#include "framework/nn/parameter_arena.h"

namespace lockstep::train {

struct PowerSgdOptions {
  int rank = 4;              // of the approximation: columns of P and Q
  std::int64_t start = 100;  // updates before this one are averaged without compression
  std::uint64_t seed = 0;    // of the first bases
  bool can_undo = true;      // steps may turn out not to be used
};

// Compresses the rows of weights that lie in a bucket as a whole, seen as matrices [extent of the
// first axis, all others], where that takes at most half of the elements. Everything else, biases
// and rows that a bucket's border cuts, travels as it is, in the first of the two all-reduces.
std::unique_ptr<comm::BucketReduction> make_power_sgd_hook(comm::Communicator& communicator,
                                                           const nn::ParameterArena& arena,
                                                           const comm::BucketPlan& plan,
                                                           const PowerSgdOptions& options);

}  // namespace lockstep::train

// What communication hooks keep from step to step, as checkpoints have it.
//
// State that all ranks share is there once, as "shared/<name>". A rank's own is there for each, as
// "rank<r>/<name>", because only then a run that is resumed goes on as if it had not stopped. On
// another number of ranks nobody's place is taken: what counts of it is the sum over the ranks (of
// residuals: what has not reached the parameters yet), and every rank takes an equal share of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/bucketing/bucket_reduction.h"
#include "framework/tensor/tensor.h"

namespace lockstep::train {

struct SavedState {
  std::string path;  // below the hook's group
  Tensor values;     // of one axis
};

// Collective. The state of all ranks on rank 0, nothing on the others; good until the next step.
std::vector<SavedState> gather_reduction_state(comm::BucketReduction& reduction,
                                               comm::Communicator& communicator, Context& context,
                                               Stream& stream);

// Fills `values` with what was saved under a path.
using ReadState = std::function<void(const std::string& path, const Tensor& values)>;

// Puts back what `ranks` ranks saved, on this rank.
void restore_reduction_state(comm::BucketReduction& reduction,
                             const comm::Communicator& communicator, Context& context, int ranks,
                             const ReadState& read);

}  // namespace lockstep::train

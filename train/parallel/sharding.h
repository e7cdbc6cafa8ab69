// Optimizer sharding: each rank updates its slice of every bucket, has optimizer state for these
// slices only, and gets the other ranks' parameters (ZeRO stage 1; Rajbhandari et al.: "ZeRO:
// Memory optimizations toward training trillion parameter models", SC 2020).
//
// A rank's slice of a bucket is the one that reduce-scatter leaves the sum in (comm::slice_of).
#pragma once

#include <vector>

#include "comm/bucketing/bucket_plan.h"
#include "comm/communicator.h"
#include "framework/optim/optimizer.h"
#include "train/timeline/timeline.h"

namespace lockstep::train {

// What `rank` of `size` updates of the buckets.
optim::Shard shard_of(const comm::BucketPlan& plan, std::size_t segments, int rank, int size);

// Brings every bucket's parameters to all ranks behind the updates of their slices, while the host
// goes on. Whoever reads a parameter first waits for the buckets that it lies in, and no others.
class ParameterGather {
 public:
  // All must outlive this; of the model's parameters this is seen to. The timeline is told of what
  // travelled, and of waiting for it.
  ParameterGather(nn::ParameterArena& arena, const comm::BucketPlan& plan,
                  comm::Communicator& communicator, Stream& compute, Stream& communication,
                  Timeline& timeline);
  ~ParameterGather();
  ParameterGather(const ParameterGather&) = delete;
  ParameterGather& operator=(const ParameterGather&) = delete;

  // One update: finish(), since peers may still read the slices; then start() for each bucket once
  // this rank's slice of it is updated, in the same order on all ranks; then the caller waits for
  // what that gave, or leaves it to expect().
  comm::Work start(std::size_t bucket);
  // From here on whoever reads a parameter waits for those of `gathers`, by bucket, that bring it.
  // Returns those that were expected before.
  std::vector<comm::Work> expect(std::vector<comm::Work> gathers);
  // All that is expected is here: for those who read the flat buffer too.
  void finish();

 private:
  struct Leaf {
    Variable parameter;
    std::size_t first_bucket, last_bucket;
  };
  void wait(std::size_t first_bucket, std::size_t last_bucket);

  nn::ParameterArena& arena_;
  const comm::BucketPlan& plan_;
  comm::Communicator& communicator_;
  Stream& compute_;
  Stream& communication_;
  Timeline& timeline_;
  std::vector<Leaf> leaves_;
  std::vector<comm::Work> works_;  // that are expected, by bucket
};

// The whole state of an optimizer, in the arena's layout, whatever shard each rank has of it.
using OptimizerState = std::vector<optim::Optimizer::State>;

// Uninitialised, in memory of its own.
OptimizerState make_whole_state(const nn::ParameterArena& arena, const optim::Optimizer& optimizer);
// Collective, blocking. Rank 0 gets the whole, the others nothing; they need memory for one bucket.
OptimizerState gather_state(const nn::ParameterArena& arena, const optim::Optimizer& optimizer,
                            const comm::BucketPlan& plan, comm::Communicator& communicator,
                            Stream& stream);
// Takes the optimizer's shard from the whole.
void take_state(const OptimizerState& whole, const optim::Optimizer& optimizer);

}  // namespace lockstep::train

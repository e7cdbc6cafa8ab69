// GradientNorm: the Euclidean norm of the averaged gradient, all parameters together.
//
// It is made of one sum of squares for each rank's slice of each bucket, added up in one order on
// every rank. So it has the same bits whether every rank reads the whole gradient, or each its own
// slices only and the sums are exchanged. In double: of float gradients it is finite exactly when
// all of them are.
#pragma once

#include "comm/bucketing/bucket_plan.h"
#include "comm/communicator.h"
#include "framework/nn/parameter_arena.h"
#include "train/parallel/host_values.h"

namespace lockstep::train {

class GradientNorm {
 public:
  // `sharded`: this rank has the averaged gradient in its own slice of each bucket only. All three
  // must outlive this.
  GradientNorm(const nn::ParameterArena& arena, const comm::BucketPlan& plan,
               comm::Communicator& communicator, bool sharded);

  // Reads bucket `bucket`, which holds the averaged gradient.
  void add(std::size_t bucket);
  // After all were added; collective when sharded. `stream`: where collectives run.
  double total(Stream& stream);

 private:
  const nn::ParameterArena& arena_;
  const comm::BucketPlan& plan_;
  comm::Communicator& communicator_;
  bool sharded_;
  HostValues<double> squares_;  // by rank, then bucket
};

}  // namespace lockstep::train

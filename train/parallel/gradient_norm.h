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

namespace lockstep::train {

class GradientNorm {
 public:
  // `sharded`: this rank has the averaged gradient in its own slice of each bucket only. All three
  // must outlive this.
  GradientNorm(const nn::ParameterArena& arena, const comm::BucketPlan& plan,
               comm::Communicator& communicator, bool sharded);

  // Reads bucket `bucket`, which holds the averaged gradient. Enqueued on the compute stream.
  void add(std::size_t bucket);
  // After all were added; collective when sharded. `stream`: where collectives run. The host does
  // not wait for a GPU.
  void exchange(Stream& stream);
  // After exchange(): the norm, for which the host waits; or, in memory of the device, the factor
  // that clips gradients which are multiplied by `scale` to a norm of `limit`, `scale` included
  // (see kernels::Kernels::clip_factor).
  double total();
  void clip(const Tensor& scale, double limit, const Tensor& factor, const Tensor& flag);

 private:
  const nn::ParameterArena& arena_;
  const comm::BucketPlan& plan_;
  comm::Communicator& communicator_;
  bool sharded_;
  Tensor squares_;  // float64, by rank, then bucket
};

}  // namespace lockstep::train

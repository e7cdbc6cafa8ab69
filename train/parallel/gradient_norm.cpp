#include "train/parallel/gradient_norm.h"

#include <cmath>

#include "framework/kernels/kernels.h"
#include "train/parallel/host_view.h"

namespace lockstep::train {

GradientNorm::GradientNorm(const nn::ParameterArena& arena, const comm::BucketPlan& plan,
                           comm::Communicator& communicator, bool sharded)
    : arena_(arena),
      plan_(plan),
      communicator_(communicator),
      sharded_(sharded),
      squares_(Tensor::empty(arena.segments().front().gradients.context(),
                             {static_cast<std::int64_t>(plan.buckets.size()) * communicator.size()},
                             DType::float64)) {}

void GradientNorm::add(std::size_t index) {
  const comm::Bucket& bucket = plan_.buckets[index];
  const Tensor& gradients = arena_.segments()[bucket.segment].gradients;
  const int first = sharded_ ? communicator_.rank() : 0;
  const int last = sharded_ ? communicator_.rank() + 1 : communicator_.size();
  for (int rank = first; rank < last; ++rank) {
    const comm::Slice slice = comm::slice_of(bucket.count(), rank, communicator_.size());
    const auto at =
        static_cast<std::int64_t>(static_cast<std::size_t>(rank) * plan_.buckets.size() + index);
    kernels::kernels_for(gradients.context())
        .sum_of_squares(gradients.slice(0, bucket.begin + slice.begin, bucket.begin + slice.end),
                        squares_.slice(0, at, at + 1));
  }
}

void GradientNorm::exchange(Stream& stream) {
  if (!sharded_) return;
  Stream& compute = squares_.context().compute_stream();
  stream.wait(compute.record());
  communicator_.all_gather({squares_.data(), squares_.count(), squares_.dtype()}, stream)
      .wait_on(compute);
}

double GradientNorm::total() {
  const HostView view(squares_);
  double sum = 0;
  for (const double squares : view.values<double>()) sum += squares;
  return std::sqrt(sum);
}

void GradientNorm::clip(const Tensor& scale, double limit, const Tensor& factor,
                        const Tensor& flag) {
  kernels::kernels_for(squares_.context()).clip_factor(squares_, scale, limit, factor, flag);
}

}  // namespace lockstep::train

#include "train/parallel/gradient_norm.h"

#include <cmath>

#include "framework/kernels/kernels.h"

namespace lockstep::train {

GradientNorm::GradientNorm(const nn::ParameterArena& arena, const comm::BucketPlan& plan,
                           comm::Communicator& communicator, bool sharded)
    : arena_(arena),
      plan_(plan),
      communicator_(communicator),
      sharded_(sharded),
      squares_(arena.segments().front().gradients.context(),
               plan.buckets.size() * static_cast<std::size_t>(communicator.size())) {}

void GradientNorm::add(std::size_t index) {
  const comm::Bucket& bucket = plan_.buckets[index];
  const Tensor& gradients = arena_.segments()[bucket.segment].gradients;
  const int first = sharded_ ? communicator_.rank() : 0;
  const int last = sharded_ ? communicator_.rank() + 1 : communicator_.size();
  for (int rank = first; rank < last; ++rank) {
    const comm::Slice slice = comm::slice_of(bucket.count(), rank, communicator_.size());
    squares_[static_cast<std::size_t>(rank) * plan_.buckets.size() + index] =
        kernels::kernels_for(gradients.context())
            .sum_of_squares(
                gradients.slice(0, bucket.begin + slice.begin, bucket.begin + slice.end));
  }
}

double GradientNorm::total(Stream& stream) {
  if (sharded_) communicator_.all_gather(squares_.range(), stream).wait();
  double sum = 0;
  for (const double squares : squares_.values()) sum += squares;
  return std::sqrt(sum);
}

}  // namespace lockstep::train

#include "train/parallel/hooks/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "train/parallel/hooks/cuda/top_k.h"
#include "train/parallel/hooks/selection.h"
#include "train/parallel/hooks/top_k_reduction.h"

namespace lockstep::train {
namespace {

// As tasks of the stream.
class HostTopK {
 public:
  HostTopK(Context&, const comm::BucketPlan&) {}

  template <class T>
  void select(const TopKBucket<T>& bucket, const TopKMessage<T>& message, Stream& stream) const {
    stream.enqueue([bucket, message] { select_now(bucket, message); });
  }
  template <class T>
  void clear(const TopKBucket<T>& bucket, Stream& stream) const {
    stream.enqueue([bucket] { std::fill_n(bucket.gradients, bucket.count, T(0)); });
  }
  template <class T>
  void add(const TopKMessage<T>& message, const TopKBucket<T>& bucket, Stream& stream) const {
    stream.enqueue([message, bucket] {
      for (std::int64_t i = 0; i < bucket.k; ++i) {
        const std::int64_t index = message.indices[i];
        if (index >= 0 && index < bucket.count) bucket.gradients[index] += message.values[i];
      }
    });
  }

 private:
  template <class T>
  static void select_now(const TopKBucket<T>& bucket, const TopKMessage<T>& message) {
    const auto& [gradients, count, k, before, factor, rest] = bucket;
    for (std::int64_t i = 0; i < count; ++i) rest[i] = gradients[i] + factor * before[i];

    auto [threshold, ties] =
        selection_threshold(std::span<const T>(rest, static_cast<std::size_t>(count)), k);
    std::int64_t taken = 0;
    bool is_finite = true;
    for (std::int64_t i = 0; i < count && taken < k; ++i) {
      const std::uint32_t bits = magnitude_bits(rest[i]);
      if (bits < threshold || (bits == threshold && ties-- <= 0)) continue;
      is_finite = is_finite && std::isfinite(rest[i]);
      message.indices[taken] = static_cast<std::int32_t>(i);
      message.values[taken++] = rest[i];
      rest[i] = 0;
    }
    // The largest are all taken, so that one which is not finite is among them.
    if (!is_finite) std::fill_n(message.values, k, std::numeric_limits<T>::quiet_NaN());
  }
};

}  // namespace

std::unique_ptr<comm::BucketReduction> make_top_k_hook(comm::Communicator& communicator,
                                                       const nn::ParameterArena& arena,
                                                       const comm::BucketPlan& plan,
                                                       const TopKOptions& options) {
  if (arena.segments().front().gradients.device().kind == DeviceKind::cuda)
    return make_cuda_top_k_hook(communicator, arena, plan, options);
  return std::make_unique<TopKReduction<HostTopK>>(communicator, arena, plan, options);
}

}  // namespace lockstep::train

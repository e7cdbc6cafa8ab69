// What top_k has in common on both kinds of device: how much of a bucket travels, in which form,
// and what stays. Private to this folder.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "framework/kernels/dispatch.h"
#include "train/parallel/hooks/error_feedback.h"
#include "train/parallel/hooks/top_k.h"
#include "train/parallel/hooks/top_k_bucket.h"
#include "train/parallel/peer_memory.h"

namespace lockstep::train {

// Arithmetic is made of a context and a plan, and enqueues on a stream
// - select(TopKBucket<T>, TopKMessage<T>, stream): cuts gradient + factor * residual into the
//   message and the next residual;
// - clear(TopKBucket<T>, stream): makes the gradients 0;
// - add(TopKMessage<T>, TopKBucket<T>, stream): adds a message to the gradients. It passes over
//   indices that are none of the bucket: a collective that failed may leave such.
template <class Arithmetic>
class TopKReduction final : public comm::BucketReduction {
 public:
  TopKReduction(comm::Communicator& communicator, const nn::ParameterArena& arena,
                const comm::BucketPlan& plan, const TopKOptions& options)
      : communicator_(communicator),
        plan_(plan),
        feedback_(arena, options.can_undo),
        arithmetic_(arena.segments().front().gradients.context(), plan) {
    std::size_t largest = 0;
    for (const comm::Bucket& bucket : plan.buckets) {
      const auto k =
          static_cast<std::int64_t>(std::ceil(options.ratio * static_cast<double>(bucket.count())));
      // Even, so that the values behind the indices are aligned for any type; without a remainder.
      counts_.push_back(std::clamp<std::int64_t>(k + k % 2, 1, bucket.count()));
      largest = std::max(largest, message_bytes(counts_.size() - 1));
    }
    memory_ = peer_memory(communicator, arena.segments().front().gradients.context(),
                          largest * static_cast<std::size_t>(communicator.size()));
  }

  std::string_view name() const override { return "top_k"; }
  void begin(const Step& step) override { feedback_.begin(step); }
  void end(bool used) override { feedback_.end(used); }
  std::vector<State> state() override {
    std::vector<State> all;
    feedback_.add_state(all);
    return all;
  }

  Started reduce(std::size_t bucket, comm::Range gradients, Stream& stream) override {
    return kernels::visit_float(name(), gradients.dtype, [&]<class T>(base::TypeTag<T>) {
      return reduce_as(bucket, static_cast<T*>(gradients.data), stream);
    });
  }

 private:
  template <class T>
  Started reduce_as(std::size_t index, T* gradients, Stream& stream) {
    const comm::Bucket& whole = plan_.buckets[index];
    const std::int64_t k = counts_[index];
    const TopKBucket<T> bucket{.gradients = gradients,
                               .count = whole.count(),
                               .k = k,
                               .before = feedback_.previous<T>(whole.segment, whole.begin),
                               .factor = static_cast<T>(feedback_.factor()),
                               .rest = feedback_.next<T>(whole.segment, whole.begin)};
    const int ranks = communicator_.size();
    const std::size_t mine = message_bytes(index);
    const std::size_t all = mine * static_cast<std::size_t>(ranks);
    arithmetic_.select(bucket, TopKMessage<T>(memory_.data(), communicator_.rank(), k), stream);
    std::vector<comm::Work> works{communicator_.all_gather(
        {memory_.data(), static_cast<std::int64_t>(all / sizeof(std::int32_t)), DType::int32},
        stream, static_cast<comm::Tag>(index))};
    arithmetic_.clear(bucket, stream);
    for (int rank = 0; rank < ranks; ++rank)
      arithmetic_.add(TopKMessage<T>(memory_.data(), rank, k), bucket, stream);
    return {comm::join(std::move(works), stream), mine,
            comm::bytes_sent(comm::CollectiveKind::all_gather, all, ranks)};
  }

  std::size_t message_bytes(std::size_t bucket) const {
    return kernels::visit_float(
        name(), plan_.buckets[bucket].dtype,
        [&]<class T>(base::TypeTag<T>) { return TopKMessage<T>::bytes(counts_[bucket]); });
  }

  comm::Communicator& communicator_;
  comm::BucketPlan plan_;
  ErrorFeedback feedback_;
  Arithmetic arithmetic_;
  std::vector<std::int64_t> counts_;  // k of each bucket
  Buffer memory_;                     // messages of all ranks, one bucket at a time
};

}  // namespace lockstep::train

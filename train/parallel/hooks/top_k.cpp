#include "train/parallel/hooks/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "train/parallel/hooks/error_feedback.h"
#include "train/parallel/hooks/selection.h"
#include "train/parallel/peer_memory.h"

namespace lockstep::train {
namespace {

using comm::CollectiveKind;
using comm::Range;

// What one rank sends of a bucket: k indices, then k values.
template <class T>
struct Message {
  std::int32_t* indices;
  T* values;

  static std::size_t bytes(std::int64_t k) {
    return static_cast<std::size_t>(k) * (sizeof(std::int32_t) + sizeof(T));
  }
  Message(std::byte* all, int rank, std::int64_t k) {
    std::byte* const mine = all + static_cast<std::size_t>(rank) * bytes(k);
    indices = reinterpret_cast<std::int32_t*>(mine);
    values = reinterpret_cast<T*>(mine + static_cast<std::size_t>(k) * sizeof(std::int32_t));
  }
};

class TopKReduction final : public comm::BucketReduction {
 public:
  TopKReduction(comm::Communicator& communicator, const nn::ParameterArena& arena,
                const comm::BucketPlan& plan, const TopKOptions& options)
      : communicator_(communicator), plan_(plan), feedback_(arena, options.can_undo) {
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
    messages_ = static_cast<std::byte*>(memory_.data());
  }

  std::string_view name() const override { return "top_k"; }

  void begin(const Step& step) override { feedback_.begin(step); }
  void end(bool used) override { feedback_.end(used); }
  std::vector<State> state() override {
    std::vector<State> all;
    feedback_.add_state(all);
    return all;
  }

  Started reduce(std::size_t bucket, Range gradients, Stream& stream) override {
    stream.enqueue([this, bucket, gradients] {
      if (gradients.dtype == DType::float64)
        select(bucket, static_cast<double*>(gradients.data));
      else
        select(bucket, static_cast<float*>(gradients.data));
    });
    const std::size_t mine = message_bytes(bucket);
    const std::size_t all = mine * static_cast<std::size_t>(communicator_.size());
    std::vector<comm::Work> works;
    works.push_back(communicator_.all_gather(
        {messages_, static_cast<std::int64_t>(all / sizeof(std::int32_t)), DType::int32}, stream,
        static_cast<comm::Tag>(bucket)));
    stream.enqueue([this, bucket, gradients] {
      if (gradients.dtype == DType::float64)
        add_up(bucket, static_cast<double*>(gradients.data));
      else
        add_up(bucket, static_cast<float*>(gradients.data));
    });
    return {comm::join(std::move(works), stream), mine,
            comm::bytes_sent(CollectiveKind::all_gather, all, communicator_.size())};
  }

 private:
  std::size_t message_bytes(std::size_t bucket) const {
    return plan_.buckets[bucket].dtype == DType::float64 ? Message<double>::bytes(counts_[bucket])
                                                         : Message<float>::bytes(counts_[bucket]);
  }

  // Cuts gradient + residual into what travels and the next residual.
  template <class T>
  void select(std::size_t index, const T* gradients) {
    const comm::Bucket& bucket = plan_.buckets[index];
    const std::int64_t k = counts_[index];
    const T* const before = feedback_.previous<T>(bucket.segment, bucket.begin);
    T* const rest = feedback_.next<T>(bucket.segment, bucket.begin);
    const T factor = static_cast<T>(feedback_.factor());
    for (std::int64_t i = 0; i < bucket.count(); ++i) rest[i] = gradients[i] + factor * before[i];

    const std::span<const T> candidates(rest, static_cast<std::size_t>(bucket.count()));
    auto [threshold, ties] = selection_threshold(candidates, k);
    const Message<T> message(messages_, communicator_.rank(), k);
    std::int64_t taken = 0;
    bool is_finite = true;
    for (std::int64_t i = 0; i < bucket.count() && taken < k; ++i) {
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

  template <class T>
  void add_up(std::size_t index, T* gradients) const {
    const std::int64_t k = counts_[index];
    std::fill_n(gradients, plan_.buckets[index].count(), T(0));
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      const Message<T> message(messages_, rank, k);
      for (std::int64_t i = 0; i < k; ++i) gradients[message.indices[i]] += message.values[i];
    }
  }

  comm::Communicator& communicator_;
  comm::BucketPlan plan_;
  ErrorFeedback feedback_;
  std::vector<std::int64_t> counts_;  // k of each bucket
  Buffer memory_;
  std::byte* messages_ = nullptr;  // of all ranks, one bucket at a time
};

}  // namespace

std::unique_ptr<comm::BucketReduction> make_top_k_hook(comm::Communicator& communicator,
                                                       const nn::ParameterArena& arena,
                                                       const comm::BucketPlan& plan,
                                                       const TopKOptions& options) {
  return std::make_unique<TopKReduction>(communicator, arena, plan, options);
}

}  // namespace lockstep::train

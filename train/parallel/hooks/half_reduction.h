// What the 16-bit hooks have in common on both kinds of device: what travels, and in which order.
// Private to this folder.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/bucketing/bucket_plan.h"
#include "comm/bucketing/bucket_reduction.h"
#include "train/parallel/peer_memory.h"

namespace lockstep::train {

// Half is bfloat16 or float16. Derived classes enqueue the arithmetic on the stream.
template <class Half>
class HalfReduction : public comm::BucketReduction {
 public:
  HalfReduction(comm::Communicator& communicator, Context& context, const comm::BucketPlan& plan)
      : communicator_(communicator) {
    std::int64_t largest = 0;
    for (const comm::Bucket& bucket : plan.buckets) largest = std::max(largest, bucket.count());
    memory_ = peer_memory(communicator, context,
                          header_bytes + static_cast<std::size_t>(largest) * sizeof(Half));
  }

  std::string_view name() const override { return is_scaled ? "fp16" : "bf16"; }

  Started reduce(std::size_t bucket, comm::Range gradients, Stream& stream) override {
    using comm::ReduceOp;
    const auto tag = static_cast<comm::Tag>(bucket);
    std::vector<comm::Work> works;
    if (is_scaled) {
      find_peak(gradients, stream);
      works.push_back(
          communicator_.all_reduce({peak(), 1, DType::float32}, ReduceOp::max, stream, tag));
    }
    encode(gradients, stream);
    works.push_back(communicator_.all_reduce({wire(), gradients.count, base::dtype_of<Half>()},
                                             ReduceOp::sum, stream, tag));
    decode(gradients, stream);
    const std::size_t bytes = bytes_of(gradients.count);
    return {comm::join(std::move(works), stream), bytes,
            comm::bytes_sent(comm::CollectiveKind::all_reduce, bytes, communicator_.size())};
  }

 protected:
  static constexpr bool is_scaled = std::is_same_v<Half, float16>;

  // The largest magnitude of the gradients as floats into *peak(); NaN where one is.
  virtual void find_peak(const comm::Range& gradients, Stream& stream) = 0;
  // The gradients, by the power of two that *peak() asks for where is_scaled, into wire().
  virtual void encode(const comm::Range& gradients, Stream& stream) = 0;
  // And back.
  virtual void decode(const comm::Range& gradients, Stream& stream) = 0;

  int ranks() const { return communicator_.size(); }
  float* peak() const { return static_cast<float*>(memory_.data()); }
  Half* wire() const {
    return reinterpret_cast<Half*>(static_cast<std::byte*>(memory_.data()) + header_bytes);
  }

  // Calls f(values, count) with values of the gradients' type.
  template <class F>
  static void visit(const comm::Range& gradients, F&& f) {
    if (gradients.dtype == DType::float64)
      f(static_cast<double*>(gradients.data), gradients.count);
    else
      f(static_cast<float*>(gradients.data), gradients.count);
  }

 private:
  static constexpr std::size_t header_bytes = 64;  // keeps the numbers behind it aligned

  // As they travel: some backends have no 16-bit arithmetic.
  std::size_t bytes_of(std::int64_t count) const {
    const std::size_t width =
        communicator_.capabilities().widens_16_bit ? sizeof(float) : sizeof(Half);
    return static_cast<std::size_t>(count) * width + (is_scaled ? sizeof(float) : 0);
  }

  comm::Communicator& communicator_;
  Buffer memory_;  // of the bucket that travels
};

}  // namespace lockstep::train

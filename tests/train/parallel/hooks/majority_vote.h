// The example of docs/hooks.md: signSGD with majority vote (Bernstein et al., ICLR 2019). Each rank
// sends one byte for each gradient, its sign; the sign that most ranks have wins, and the size of
// the step is left to the learning rate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "comm/bucketing/bucket_plan.h"
#include "comm/bucketing/bucket_reduction.h"
#include "train/parallel/peer_memory.h"
#include "train/parallel/replica.h"

class MajorityVote final : public lockstep::comm::BucketReduction {
 public:
  MajorityVote(lockstep::comm::Communicator& communicator, lockstep::Context& context,
               const lockstep::comm::BucketPlan& plan)
      : communicator_(communicator) {
    std::int64_t largest = 0;
    for (const auto& bucket : plan.buckets) largest = std::max(largest, bucket.count());
    votes_ = lockstep::train::peer_memory(communicator, context, static_cast<std::size_t>(largest));
  }

  std::string_view name() const override { return "majority_vote"; }

  Started reduce(std::size_t bucket, lockstep::comm::Range gradients,
                 lockstep::Stream& stream) override {
    auto* const values = static_cast<float*>(gradients.data);
    auto* const votes = static_cast<std::uint8_t*>(votes_.data());
    const std::int64_t count = gradients.count;
    const int ranks = communicator_.size();  // at most 127, or the bytes would run over

    // 0, 1 or 2 for minus, zero or plus, so that votes can be added up.
    stream.enqueue([=] {
      for (std::int64_t i = 0; i < count; ++i)
        votes[i] = static_cast<std::uint8_t>(1 + (values[i] > 0) - (values[i] < 0));
    });
    const lockstep::comm::Work sum = communicator_.all_reduce(
        {votes, count, lockstep::DType::uint8}, lockstep::comm::ReduceOp::sum, stream,
        static_cast<lockstep::comm::Tag>(bucket));
    stream.enqueue([=] {
      for (std::int64_t i = 0; i < count; ++i)
        values[i] = static_cast<float>((votes[i] > ranks) - (votes[i] < ranks));
    });

    const auto bytes = static_cast<std::size_t>(count);
    return {lockstep::comm::join({sum}, stream), bytes,
            lockstep::comm::bytes_sent(lockstep::comm::CollectiveKind::all_reduce, bytes, ranks)};
  }

 private:
  lockstep::comm::Communicator& communicator_;
  lockstep::Buffer votes_;  // one bucket at a time: the stream keeps them in order
};

inline lockstep::train::ReductionFactory majority_vote() {
  return [](lockstep::comm::Communicator& communicator, const lockstep::nn::ParameterArena& arena,
            const lockstep::comm::BucketPlan& plan) {
    lockstep::Context& context = arena.segments().front().gradients.context();
    return std::make_unique<MajorityVote>(communicator, context, plan);
  };
}

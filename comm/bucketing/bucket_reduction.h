// BucketReduction: how the gradients of one bucket become their sum over all ranks. This is the
// interface of communication hooks: a user's own is a class that implements it.
//
// The averager calls reduce() once for each bucket and step, in the order of the buckets, on every
// rank. An implementation enqueues its work on `stream`, any mix of collectives and of computation
// between them, and returns without waiting: the backward pass is going on meanwhile. On a stream
// of the CPU computation is a task (Stream::enqueue) that must not throw; a collective that failed
// lets the tasks behind it run, on memory of which nothing is expected any more.
//
// Rules: every rank leaves the same bits in the bucket, unless the implementation says which part
// of it holds the result (ScatterReduction). All ranks enqueue the same collectives on the same
// communicator, each tagged with the bucket. Staging memory is taken at construction (from
// Communicator::addressable_memory() where the backend wants that), not in a step.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace lockstep::comm {

class BucketReduction {
 public:
  struct Started {
    Work work;                // done when the bucket holds the result
    std::uint64_t bytes = 0;  // that this rank gave to collectives
  };

  virtual ~BucketReduction() = default;
  BucketReduction() = default;
  BucketReduction(const BucketReduction&) = delete;
  BucketReduction& operator=(const BucketReduction&) = delete;

  virtual std::string_view name() const = 0;  // data_parallel.hook
  // `gradients` is bucket `bucket` of the plan, this rank's sum over its own samples. It belongs to
  // the reduction until the work is done.
  virtual Started reduce(std::size_t bucket, Range gradients, Stream& stream) = 0;
};

// The plain sum: one all-reduce, in place. The communicator must outlive this.
class AllReduction final : public BucketReduction {
 public:
  explicit AllReduction(Communicator& communicator) : communicator_(communicator) {}
  std::string_view name() const override { return "none"; }
  Started reduce(std::size_t bucket, Range gradients, Stream& stream) override;

 private:
  Communicator& communicator_;
};

// One reduce-scatter, in place: a rank has the sum in its slice (slice_of) of the bucket only.
class ScatterReduction final : public BucketReduction {
 public:
  explicit ScatterReduction(Communicator& communicator) : communicator_(communicator) {}
  std::string_view name() const override { return "none"; }
  Started reduce(std::size_t bucket, Range gradients, Stream& stream) override;

 private:
  Communicator& communicator_;
};

// For reductions of several steps: the work that is done when everything enqueued on `stream` so
// far is. It fails with what the first of `collectives` failed with that did; its times span
// theirs.
Work join(std::vector<Work> collectives, Stream& stream);

}  // namespace lockstep::comm

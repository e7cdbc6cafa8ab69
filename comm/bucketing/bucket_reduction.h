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
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace lockstep::comm {

class BucketReduction {
 public:
  struct Started {
    Work work;                // done when the bucket holds the result
    std::uint64_t bytes = 0;  // that this rank gave to collectives
    // That left this rank, as the algorithms send that need least (bytes_sent).
    std::uint64_t sent = 0;
  };
  struct Step {
    std::int64_t number = 1;  // 1, 2, ..., counted on when a run is resumed
    double loss_scale = 1;    // by which the gradients of this step are larger than they should be
  };
  // What lives on from step to step, as a checkpoint keeps it.
  struct State {
    std::string name;  // "residual/<parameter>"; without a leading slash
    Range values;      // valid until the next step; a checkpoint that is loaded writes them
    // Each rank has its own, and it is their sum over the ranks that matters: on another number of
    // ranks each takes its share of the sum. Otherwise all ranks hold the same bits.
    bool of_rank = false;
  };

  virtual ~BucketReduction() = default;
  BucketReduction() = default;
  BucketReduction(const BucketReduction&) = delete;
  BucketReduction& operator=(const BucketReduction&) = delete;

  virtual std::string_view name() const = 0;  // data_parallel.hook
  // `gradients` is bucket `bucket` of the plan, this rank's sum over its own samples. It belongs to
  // the reduction until the work is done.
  virtual Started reduce(std::size_t bucket, Range gradients, Stream& stream) = 0;

  // On the rank's thread, before the first and after the last bucket of a step, when all work is
  // done. A step whose gradients were not `used` (they were not finite) must leave no trace.
  virtual void begin(const Step&) {}
  virtual void end(bool /*used*/) {}
  virtual std::vector<State> state() { return {}; }
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

// The bytes that leave each rank, at least and on the average, when `size` ranks carry out a
// collective on `bytes` bytes (of the whole range, for all_gather and reduce_scatter too): the
// 2(n-1)/n and (n-1)/n of the bus bandwidth.
std::uint64_t bytes_sent(CollectiveKind kind, std::size_t bytes, int size);

// For reductions of several steps: the work that is done when everything enqueued on `stream` so
// far is. It fails with what the first of `collectives` failed with that did; its times span
// theirs.
Work join(std::vector<Work> collectives, Stream& stream);

}  // namespace lockstep::comm

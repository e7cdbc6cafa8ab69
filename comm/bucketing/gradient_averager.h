// GradientAverager: starts the reduction of each bucket as soon as its gradients are final, in one
// fixed order, on the communication stream, without the host waiting.
//
// Gradients are summed: every loss was scaled by 1 / (targets in the global batch) beforehand, so
// the sum is the gradient of the global batch, whatever the shards' sizes.
//
// One step: begin(), then ready() for each finished range, then finish(), then wait(b) for each
// bucket in order. Ranges come in any order and in pieces. Used from one thread. No call waits on
// the host, except where the stream that a collective runs on is inline.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/bucketing/bucket_plan.h"
#include "comm/bucketing/bucket_reduction.h"
#include "framework/device/context.h"

namespace lockstep::comm {

// When a bucket's last gradient was final, and when its reduction was enqueued.
struct BucketTimes {
  device::Clock::time_point ready, launched;
};

class GradientAverager {
 public:
  // `flat[s]` is segment s's flat gradient buffer. With `overlap` false every bucket is launched by
  // finish(), on the compute stream. The reduction, the streams and the memory must outlive
  // this. Throws UsageError when plan, segments and buffers do not fit together.
  GradientAverager(BucketReduction& reduction, const std::vector<SegmentLayout>& segments,
                   BucketPlan plan, std::vector<Range> flat, Stream& compute_stream,
                   Stream& communication_stream, bool overlap);

  void begin();
  // Elements [begin, end) of segment `segment` are final once the work enqueued so far on the
  // compute stream is done. The range may take in padding between gradients. Throws UsageError when
  // elements are announced twice, lie outside the segment, or come outside begin() .. finish().
  void ready(std::size_t segment, std::int64_t begin, std::int64_t end);
  // No more gradients come in this step. Launches what is left; elements that were never announced
  // must hold what they are to contribute (zero).
  void finish();
  // After finish(). Work enqueued on the compute stream afterwards sees bucket b reduced; on an
  // inline compute stream this throws what the collective failed with.
  void wait(std::size_t bucket);

  const BucketPlan& plan() const { return plan_; }
  const std::vector<Work>& works() const {
    return works_;
  }  // of the current step, one for each bucket
  // For timelines: whether steps that begin from now on note the times of their buckets.
  void record_times(bool on) { records_times_ = on; }
  const std::vector<BucketTimes>& times() const { return times_; }
  std::uint64_t reductions_this_step() const { return launched_; }
  // What this rank gave to collectives, and what of it left the rank at least.
  std::uint64_t bytes_this_step() const { return bytes_; }
  std::uint64_t sent_this_step() const { return sent_; }

 private:
  // Announced ranges of one segment: ascending, disjoint, neighbours joined.
  using Ranges = std::vector<Slice>;

  void launch_ready_buckets();
  void launch(std::size_t bucket);
  std::int64_t gradient_elements(std::size_t segment, Slice range) const;
  void announce(std::size_t segment, Slice range);

  BucketReduction& reduction_;
  std::vector<SegmentLayout> segments_;
  BucketPlan plan_;
  std::vector<Range> flat_;
  Stream& compute_;
  Stream& communication_;
  bool overlap_;

  std::vector<std::int64_t> elements_;  // gradient elements of each bucket, without padding
  std::vector<std::int64_t> pending_;   // how many of them are not final yet
  std::vector<Ranges> announced_;       // by segment
  std::vector<Work> works_;
  std::vector<BucketTimes> times_;
  bool records_times_ = false;
  bool open_ = false;         // between begin() and finish()
  std::size_t launched_ = 0;  // buckets 0 .. launched_-1 are on their way
  std::uint64_t bytes_ = 0, sent_ = 0;
};

}  // namespace lockstep::comm

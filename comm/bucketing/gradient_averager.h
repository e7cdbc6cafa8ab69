// GradientAverager: starts the all-reduce of each bucket as soon as its gradients are final, in one fixed
// order, on the communication stream, without the host waiting.
//
// Gradients are summed: every loss was scaled by 1 / (targets in the global batch) beforehand, so the sum
// is the gradient of the global batch, whatever the shards' sizes.
//
// One step: begin(), then ready() for each finished range, then finish(), then wait(b) for each bucket in
// order. Used from one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/bucketing/bucket_plan.h"
#include "comm/communicator.h"
#include "framework/device/context.h"

namespace lockstep::comm {

class GradientAverager {
 public:
  // `flat[s]` is segment s's flat gradient buffer. With `overlap` false every bucket is launched by
  // finish(), on the compute stream's thread of control.
  GradientAverager(Communicator& communicator, const std::vector<SegmentLayout>& segments, BucketPlan plan,
                   std::vector<Range> flat, Stream& compute_stream, Stream& communication_stream, bool overlap);

  void begin();
  // Elements [begin, end) of segment `segment` are final once the work enqueued so far on the compute
  // stream is done. Throws UsageError when elements are announced twice.
  void ready(std::size_t segment, std::int64_t begin, std::int64_t end);
  // No more gradients come in this step. Launches what is left; elements that were never announced must
  // hold what they are to contribute (zero).
  void finish();
  // Work enqueued on the compute stream afterwards sees bucket b reduced.
  void wait(std::size_t bucket);

  const BucketPlan& plan() const { return plan_; }
  const std::vector<Work>& works() const { return works_; }  // of the current step, one for each bucket
  std::uint64_t reductions_this_step() const { return launched_; }
  std::uint64_t bytes_this_step() const { return bytes_; }

 private:
  void launch_ready_buckets();
  void launch(std::size_t bucket);

  Communicator& communicator_;
  std::vector<SegmentLayout> segments_;
  BucketPlan plan_;
  std::vector<Range> flat_;
  Stream& compute_;
  Stream& communication_;
  bool overlap_;

  std::vector<std::int64_t> pending_;   // elements of each bucket that are not final yet
  std::vector<Work> works_;
  std::size_t launched_ = 0;            // buckets 0 .. launched_-1 are on their way
  std::uint64_t bytes_ = 0;
};

}  // namespace lockstep::comm

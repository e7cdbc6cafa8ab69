// What a profiler of GPUs shows of a timeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include "framework/device/cuda/cuda_context.h"
#include "train/timeline/timeline.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TimelineRanges, AreTheSpansAndInTracedStepsTheParts) {
  const auto context = device::make_cuda_context(0, 0);
  Timeline timeline(*context, TraceSteps{2, 2});
  for (const int step : {1, 2}) {
    emulation::entered_ranges.clear();
    timeline.begin_step(step);
    {
      const Timeline::Span forward(timeline, Activity::forward);
      const device::RecordedPart layer(*context, "hidden.0");
      const Timeline::Span wait(timeline, Activity::bucket_wait, 3);
    }
    {
      const Timeline::Span backward(timeline, Activity::backward);
      const device::RecordedPart layer(*context, "hidden.0", "linear");
    }
    timeline.end_step({});
    if (step == 1)
      EXPECT_THAT(emulation::entered_ranges,
                  ElementsAre("forward", "forward/bucket wait, bucket 3", "backward"));
    else
      EXPECT_THAT(emulation::entered_ranges, ElementsAre("forward", "forward/hidden.0",
                                                         "forward/hidden.0/bucket wait, bucket 3",
                                                         "backward", "backward/hidden.0, linear"));
    EXPECT_THAT(emulation::open_ranges, IsEmpty());
  }
}

}  // namespace
}  // namespace lockstep::train

// The trace of a run in the Trace Event Format, which chrome://tracing and ui.perfetto.dev open:
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Google, 2016).
//
// A process for each rank, with a thread that computes and one that communicates; times in
// microseconds since the run was started.
#pragma once

#include <span>
#include <string>

#include "comm/bucketing/bucket_plan.h"
#include "train/timeline/timeline.h"

namespace lockstep::train {

// One rank's events, in JSON: the members of a list, for write_trace().
std::string trace_events(const Timeline& timeline, int rank, const comm::BucketPlan& plan,
                         Timeline::TimePoint origin);

// Throws CheckpointError when the file cannot be written.
void write_trace(const std::string& path, std::span<const std::string> events_by_rank);

}  // namespace lockstep::train

// Timeline: what one rank did, and when.
//
// The rank's thread marks the activities that a step is made of, which costs two readings of the
// clock for each; when the step ends they and the times of its collectives become the step's parts.
// In the steps that are traced every event is kept as well, with each layer's forward and backward,
// and when buckets became ready and were launched. On a GPU what is recorded is a range in its
// profiler too.
//
// Only the rank's own thread records; what happened on the communication stream is taken from the
// finished collectives. So there is no lock and nothing shared. Times are those of the steady
// clock, which all processes of a host share; another host's clock starts elsewhere.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/bucketing/gradient_averager.h"
#include "framework/device/recorder.h"
#include "train/timeline/interval.h"
#include "train/timeline/step_parts.h"
#include "train/timeline/trace_steps.h"

namespace lockstep::train {

enum class Activity : std::uint8_t {
  data_wait,
  forward,
  backward,
  bucket_wait,  // without overlap: the communication itself
  update,
  summary_wait,
  consistency,
  evaluation,
  checkpoint,
};
std::string_view name_of(Activity activity);

// What a finished step left behind.
struct StepWork {
  std::span<const comm::Work> buckets;
  std::span<const comm::BucketTimes> times;  // of the buckets; needed in traced steps only
  comm::Work summary;
};

class Timeline final : private device::Recorder {
 public:
  static constexpr std::uint32_t no_bucket = std::numeric_limits<std::uint32_t>::max();
  using TimePoint = device::Clock::time_point;

  struct Event {
    enum class Kind : std::uint8_t {
      step,
      activity,
      part,  // a layer's forward or backward
      ready,
      launched,
      bucket,  // on the communication stream, as are the others
      parameters,
      summary
    };
    Kind kind = Kind::step;
    Activity activity = Activity::forward;  // of a part: within which
    std::uint32_t bucket = no_bucket;
    std::int64_t step = 0;
    TimePoint begin, end;
    std::string_view part, operation;
  };

  // The context must outlive it.
  Timeline(Context& context, TraceSteps trace) : context_(context), trace_(trace) {}
  ~Timeline() override { context_.set_recorder(nullptr); }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Between its beginning and its end the thread does `activity`. Nested: what is within another
  // counts for itself only (a forward pass that waits for a parameter).
  class Span {
   public:
    Span(Timeline& timeline, Activity activity, std::uint32_t bucket = no_bucket)
        : timeline_(timeline),
          activity_(std::exchange(timeline.activity_, activity)),
          inner_(std::exchange(timeline.inner_, {})),
          bucket_(bucket),
          begin_(device::Clock::now()) {
      timeline_.begin_range(activity, bucket);
    }
    ~Span() {
      timeline_.context_.end_range();
      const Interval interval{begin_, device::Clock::now()};
      timeline_.add(bucket_, interval);
      timeline_.inner_ = inner_ + (interval.end - interval.begin);
      timeline_.activity_ = activity_;
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Timeline& timeline_;
    Activity activity_;              // of the span around this one
    device::Clock::duration inner_;  // of the spans within that one so far
    std::uint32_t bucket_;
    TimePoint begin_;
  };

  void begin_step(std::int64_t step);
  // Buckets' parameters came in collectives, now done, that may have begun in an earlier step.
  void travelled(std::span<const comm::Work> parameters);
  // All collectives of the step are done.
  StepParts end_step(const StepWork& work);

  const TraceSteps& trace_steps() const { return trace_; }
  bool tracing() const { return tracing_; }
  // The traced steps are over, and what lay between them.
  void end_trace();
  const std::vector<Event>& events() const { return events_; }

 private:
  void enter(std::string_view part, std::string_view operation) override;
  void leave() override;
  std::string_view part() const override;

  void begin_range(Activity activity, std::uint32_t bucket);
  void add(std::uint32_t bucket, Interval interval);
  void add_event(Event::Kind kind, std::uint32_t bucket, Interval interval);
  void trace_work(const StepWork& work);
  void make_room();

  Context& context_;
  TraceSteps trace_;

  std::int64_t step_ = 0;
  bool in_step_ = false;
  TimePoint step_begin_;
  StepParts parts_;
  std::vector<Interval> waits_;    // of the step, for buckets
  std::vector<Interval> travels_;  // of its buckets

  bool tracing_ = false;
  Activity activity_ = Activity::forward;  // of the innermost span
  device::Clock::duration inner_{};        // of the spans within that so far
  std::vector<Event> events_;
  std::vector<std::size_t> open_;  // parts that were entered and not left
  std::size_t step_events_ = 0;    // how many were there when the step began
  std::size_t most_events_ = 0;    // of a step so far
};

}  // namespace lockstep::train

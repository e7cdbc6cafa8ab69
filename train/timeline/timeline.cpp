#include "train/timeline/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::train {
namespace {

// Takes no memory, and no time on a CPU, where nobody reads the name.
template <class... T>
void name_range(Context& context, fmt::format_string<T...> words, T&&... values) {
  if (context.device().kind == DeviceKind::cpu) return;
  std::array<char, 64> name{};  // of which the last stays zero
  fmt::format_to_n(name.begin(), name.size() - 1, words, std::forward<T>(values)...);
  context.begin_range(name.data());
}

}  // namespace

std::string_view name_of(Activity activity) {
  constexpr std::array<std::string_view, 9> names = {"data wait",   "forward",    "backward",
                                                     "bucket wait", "update",     "summary wait",
                                                     "consistency", "evaluation", "checkpoint"};
  return names[static_cast<std::size_t>(activity)];
}

void Timeline::begin_range(Activity activity, std::uint32_t bucket) {
  if (bucket == no_bucket)
    name_range(context_, "{}", name_of(activity));
  else
    name_range(context_, "{}, bucket {}", name_of(activity), bucket);
}

void Timeline::begin_step(std::int64_t step) {
  step_ = step;
  if (trace_.contains(step)) {
    tracing_ = true;
    context_.set_recorder(this);
    make_room();
  } else {
    end_trace();
  }
  parts_ = {};
  waits_.clear();
  travels_.clear();
  in_step_ = true;
  step_begin_ = device::Clock::now();
}

// Memory is taken between steps, and seldom.
void Timeline::make_room() {
  most_events_ = std::max(most_events_, events_.size() - step_events_);
  step_events_ = events_.size();
  const std::size_t wanted = events_.size() + 2 * most_events_ + 1024;
  if (events_.capacity() < wanted) events_.reserve(std::max(wanted, 2 * events_.capacity()));
}

void Timeline::add_event(Event::Kind kind, std::uint32_t bucket, Interval interval) {
  events_.push_back({.kind = kind,
                     .activity = activity_,
                     .bucket = bucket,
                     .step = step_,
                     .begin = interval.begin,
                     .end = interval.end,
                     .part = {},
                     .operation = {}});
}

// Of activity_.
void Timeline::add(std::uint32_t bucket, Interval interval) {
  if (tracing_) add_event(Event::Kind::activity, bucket, interval);
  if (!in_step_) return;
  const double own = seconds(interval) - std::chrono::duration<double>(inner_).count();
  switch (activity_) {
    case Activity::forward:
    case Activity::backward:
    case Activity::update:
      parts_.compute += own;
      break;
    case Activity::bucket_wait:
      waits_.push_back(interval);
      break;
    case Activity::data_wait:
      parts_.data_wait += own;
      break;
    case Activity::summary_wait:
      parts_.summary_wait += own;
      break;
    default:
      break;  // between steps
  }
}

StepParts Timeline::end_step(const StepWork& work) {
  const Interval step{step_begin_, device::Clock::now()};
  in_step_ = false;
  for (const comm::Work& bucket : work.buckets) {
    const auto times = bucket.times();
    travels_.push_back({times.start, times.end});
  }
  unite(travels_);
  parts_.step = seconds(step);
  parts_.communication = total(travels_);
  parts_.exposed = intersection(travels_, waits_);
  parts_.wake_up = total(waits_) - parts_.exposed;
  if (tracing_) {
    add_event(Event::Kind::step, no_bucket, step);
    trace_work(work);
  }
  return parts_;
}

void Timeline::travelled(std::span<const comm::Work> parameters) {
  for (std::uint32_t b = 0; b < parameters.size(); ++b) {
    const auto times = parameters[b].times();
    if (!in_step_ || times.end == TimePoint()) continue;  // there was none
    travels_.push_back({times.start, times.end});
    if (tracing_) add_event(Event::Kind::parameters, b, {times.start, times.end});
  }
}

void Timeline::trace_work(const StepWork& work) {
  for (std::uint32_t b = 0; b < work.buckets.size(); ++b) {
    const auto travelled = work.buckets[b].times();
    add_event(Event::Kind::bucket, b, {travelled.start, travelled.end});
    const comm::BucketTimes& times = work.times[b];
    add_event(Event::Kind::ready, b, {times.ready, times.ready});
    add_event(Event::Kind::launched, b, {times.launched, times.launched});
  }
  const auto summary = work.summary.times();
  if (summary.end == TimePoint()) return;  // the step had none
  add_event(Event::Kind::summary, no_bucket, {summary.start, summary.end});
}

void Timeline::end_trace() {
  tracing_ = false;
  context_.set_recorder(nullptr);
}

void Timeline::enter(std::string_view part, std::string_view operation) {
  open_.push_back(events_.size());
  events_.push_back({.kind = Event::Kind::part,
                     .activity = activity_,
                     .step = step_,
                     .begin = device::Clock::now(),
                     .end = {},
                     .part = part,
                     .operation = operation});
  name_range(context_, "{}{}{}", part, part.empty() || operation.empty() ? "" : ", ", operation);
}

void Timeline::leave() {
  context_.end_range();
  events_[open_.back()].end = device::Clock::now();
  open_.pop_back();
}

std::string_view Timeline::part() const {
  return open_.empty() ? std::string_view() : events_[open_.back()].part;
}

}  // namespace lockstep::train

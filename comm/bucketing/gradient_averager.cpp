#include "comm/bucketing/gradient_averager.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::comm {

GradientAverager::GradientAverager(BucketReduction& reduction,
                                   const std::vector<SegmentLayout>& segments, BucketPlan plan,
                                   std::vector<Range> flat, Stream& compute_stream,
                                   Stream& communication_stream, bool overlap)
    : reduction_(reduction),
      segments_(segments),
      plan_(std::move(plan)),
      flat_(std::move(flat)),
      compute_(compute_stream),
      communication_(communication_stream),
      overlap_(overlap),
      pending_(plan_.buckets.size()),
      announced_(segments_.size()),
      works_(plan_.buckets.size()),
      times_(plan_.buckets.size()) {
  if (flat_.size() != segments_.size())
    throw UsageError(fmt::format("gradient averager: found {} buffers for {} segments",
                                 flat_.size(), segments_.size()));
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    if (flat_[s].count != segments_[s].count || flat_[s].dtype != segments_[s].dtype)
      throw UsageError(fmt::format("gradient averager: segment {} has {} {}, its buffer {} {}", s,
                                   segments_[s].count, base::name_of(segments_[s].dtype),
                                   flat_[s].count, base::name_of(flat_[s].dtype)));
    announced_[s].reserve(segments_[s].gradients.size());
  }
  for (const Bucket& bucket : plan_.buckets) {
    if (bucket.segment >= segments_.size() || bucket.end > segments_[bucket.segment].count)
      throw UsageError("gradient averager: the plan was not made for these segments");
    elements_.push_back(gradient_elements(bucket.segment, {bucket.begin, bucket.end}));
  }
}

void GradientAverager::begin() {
  pending_ = elements_;
  for (Ranges& ranges : announced_) ranges.clear();
  std::fill(works_.begin(), works_.end(), Work());
  launched_ = 0;
  bytes_ = sent_ = 0;
  open_ = true;
}

void GradientAverager::ready(std::size_t segment, std::int64_t begin, std::int64_t end) {
  if (!open_) throw UsageError("gradient averager: ready() outside begin() .. finish()");
  if (segment >= segments_.size() || begin < 0 || end < begin || end > segments_[segment].count)
    throw UsageError(
        fmt::format("gradient averager: segment {} has no elements [{}, {})", segment, begin, end));
  announce(segment, {begin, end});
  // Buckets ascend within a segment, and segments within the plan.
  const auto& buckets = plan_.buckets;
  auto bucket = std::partition_point(buckets.begin(), buckets.end(), [&](const Bucket& b) {
    return b.segment < segment || (b.segment == segment && b.end <= begin);
  });
  for (; bucket != buckets.end() && bucket->segment == segment && bucket->begin < end; ++bucket) {
    const Slice part = {std::max(begin, bucket->begin), std::min(end, bucket->end)};
    const auto index = static_cast<std::size_t>(bucket - buckets.begin());
    pending_[index] -= gradient_elements(segment, part);
    if (records_times_ && pending_[index] == 0) times_[index].ready = device::Clock::now();
  }
  if (overlap_) launch_ready_buckets();
}

void GradientAverager::finish() {
  if (!open_) throw UsageError("gradient averager: finish() without begin()");
  open_ = false;
  while (launched_ < plan_.buckets.size()) launch(launched_);
}

void GradientAverager::wait(std::size_t bucket) {
  if (bucket >= launched_)
    throw UsageError(fmt::format("gradient averager: bucket {} was not launched", bucket));
  works_[bucket].wait_on(compute_);
}

void GradientAverager::launch_ready_buckets() {
  while (launched_ < plan_.buckets.size() && pending_[launched_] == 0) launch(launched_);
}

void GradientAverager::launch(std::size_t index) {
  const Bucket& bucket = plan_.buckets[index];
  if (records_times_) {
    times_[index].launched = device::Clock::now();
    if (pending_[index] > 0) times_[index].ready = times_[index].launched;  // by finish()
  }
  Stream& stream = overlap_ ? communication_ : compute_;
  if (overlap_) stream.wait(compute_.record());
  const std::size_t offset = static_cast<std::size_t>(bucket.begin) * base::size_of(bucket.dtype);
  const Range range = {static_cast<std::byte*>(flat_[bucket.segment].data) + offset, bucket.count(),
                       bucket.dtype};
  const auto [work, bytes, sent] = reduction_.reduce(index, range, stream);
  works_[index] = work;
  bytes_ += bytes;
  sent_ += sent;
  ++launched_;
}

std::int64_t GradientAverager::gradient_elements(std::size_t segment, Slice range) const {
  const auto& gradients = segments_[segment].gradients;
  auto gradient =
      std::partition_point(gradients.begin(), gradients.end(),
                           [&](const GradientRange& g) { return g.end <= range.begin; });
  std::int64_t elements = 0;
  for (; gradient != gradients.end() && gradient->begin < range.end; ++gradient)
    elements += std::min(gradient->end, range.end) - std::max(gradient->begin, range.begin);
  return elements;
}

// Mostly ranges come in order and grow the last one, so this is short.
void GradientAverager::announce(std::size_t segment, Slice range) {
  if (range.count() == 0) return;
  Ranges& ranges = announced_[segment];
  const auto next = std::partition_point(ranges.begin(), ranges.end(),
                                         [&](const Slice& r) { return r.end <= range.begin; });
  if (next != ranges.end() && next->begin < range.end)
    throw UsageError(fmt::format(
        "gradient averager: elements [{}, {}) of segment {} are announced twice in one step",
        std::max(next->begin, range.begin), std::min(next->end, range.end), segment));
  const bool joins_previous = next != ranges.begin() && std::prev(next)->end == range.begin;
  const bool joins_next = next != ranges.end() && next->begin == range.end;
  if (joins_previous && joins_next) {
    std::prev(next)->end = next->end;
    ranges.erase(next);
  } else if (joins_previous) {
    std::prev(next)->end = range.end;
  } else if (joins_next) {
    next->begin = range.begin;
  } else {
    ranges.insert(next, range);
  }
}

}  // namespace lockstep::comm

#include "comm/bucketing/bucket_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "framework/base/units.h"

namespace lockstep::comm {

namespace {

// Cuts inside a tensor keep the cache lines, and with them vector loads, of both sides whole.
constexpr std::size_t cut_alignment = 64;

std::int64_t align_down(std::int64_t value, std::int64_t to) {
  return value / to * to;
}

// Lays the buckets of one segment behind those of the segments before.
class Packer {
 public:
  Packer(std::size_t segment, DType dtype, std::size_t bucket_bytes, std::size_t first_bucket_bytes,
         std::vector<Bucket>& buckets)
      : segment_(segment),
        dtype_(dtype),
        line_(static_cast<std::int64_t>(cut_alignment / base::size_of(dtype))),
        limit_(elements(bucket_bytes)),
        first_limit_(std::min(limit_, elements(first_bucket_bytes))),
        buckets_(buckets) {}

  void add(GradientRange gradient) {
    if (gradient.begin == gradient.end) return;
    if (gradient.end - gradient.begin > limit_) {
      cut(gradient);
    } else {
      pack(gradient);
    }
  }

  void close() {
    if (is_open_) buckets_.push_back({segment_, begin_, end_, dtype_});
    is_open_ = false;
  }

 private:
  std::int64_t elements(std::size_t bytes) const {
    return static_cast<std::int64_t>(bytes / cut_alignment) * line_;
  }

  // Appends a gradient to the open bucket, going on to the next one where the limit is reached.
  void pack(GradientRange gradient) {
    for (;;) {
      if (!is_open_) open(gradient.begin);
      const std::int64_t limit = buckets_.empty() ? first_limit_ : limit_;
      if (gradient.end - begin_ <= limit) break;
      const std::int64_t border = align_down(begin_ + limit, line_);
      if (border > gradient.begin) end_ = gradient.begin = border;
      close();
    }
    end_ = gradient.end;
  }

  // Cuts a gradient into equal pieces within the limit, each a bucket.
  void cut(GradientRange gradient) {
    close();
    // Counted from the line that the gradient begins in, so that whole lines divide evenly.
    const std::int64_t origin = align_down(gradient.begin, line_);
    const std::int64_t lines = (gradient.end - origin + line_ - 1) / line_;
    const std::int64_t lines_allowed = limit_ / line_;
    const std::int64_t pieces = (lines + lines_allowed - 1) / lines_allowed;
    for (std::int64_t p = 0; p < pieces; ++p) {
      open(std::max(gradient.begin, origin + lines * p / pieces * line_));
      end_ = std::min(gradient.end, origin + lines * (p + 1) / pieces * line_);
      close();
    }
  }

  void open(std::int64_t begin) {
    begin_ = end_ = begin;
    is_open_ = true;
  }

  std::size_t segment_;
  DType dtype_;
  std::int64_t line_;  // elements
  std::int64_t limit_, first_limit_;
  std::vector<Bucket>& buckets_;
  bool is_open_ = false;
  std::int64_t begin_ = 0, end_ = 0;
};

void check(const SegmentLayout& segment) {
  std::int64_t previous = 0;
  for (const GradientRange& gradient : segment.gradients) {
    if (gradient.begin < previous || gradient.end < gradient.begin || gradient.end > segment.count)
      throw UsageError(fmt::format(
          "bucket plan: gradient [{}, {}) must begin at {} or later and end within {} elements",
          gradient.begin, gradient.end, previous, segment.count));
    previous = gradient.end;
  }
}

}  // namespace

std::size_t balanced_bucket_bytes(std::size_t total_bytes, const CostModel& cost) {
  const double balanced =
      std::sqrt(static_cast<double>(total_bytes) * cost.latency * cost.bytes_per_second);
  constexpr double least = 64 << 10, most = 64 << 20;
  return static_cast<std::size_t>(std::clamp(balanced, least, most));
}

BucketPlan plan_buckets(const std::vector<SegmentLayout>& segments,
                        const BucketPlanOptions& options) {
  std::size_t total_bytes = 0;
  for (const SegmentLayout& segment : segments)
    total_bytes += static_cast<std::size_t>(segment.count) * base::size_of(segment.dtype);
  const std::size_t bytes =
      options.bucket_bytes.value_or(balanced_bucket_bytes(total_bytes, options.cost));
  const std::size_t first_bytes = std::min(options.first_bucket_bytes, bytes);
  if (first_bytes < cut_alignment)
    throw UsageError(fmt::format("bucket plan: found a limit of {} bytes, expected at least {}",
                                 first_bytes, cut_alignment));
  BucketPlan plan;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    check(segments[s]);
    Packer packer(s, segments[s].dtype, bytes, first_bytes, plan.buckets);
    for (const GradientRange& gradient : segments[s].gradients) packer.add(gradient);
    packer.close();
  }
  return plan;
}

std::string BucketPlan::list() const {
  std::string lines;
  for (std::size_t b = 0; b < buckets.size(); ++b)
    lines += fmt::format("bucket {}: segment {}, {} [{}, {})\n", b, buckets[b].segment,
                         base::name_of(buckets[b].dtype), buckets[b].begin, buckets[b].end);
  return lines;
}

std::string BucketPlan::describe() const {
  if (buckets.empty()) return "no buckets";
  std::size_t least = buckets.front().bytes(), most = 0, total = 0;
  for (const Bucket& bucket : buckets) {
    least = std::min(least, bucket.bytes());
    most = std::max(most, bucket.bytes());
    total += bucket.bytes();
  }
  return fmt::format("{} {} of {} to {}, {} in all", buckets.size(),
                     buckets.size() == 1 ? "bucket" : "buckets", base::format_bytes(least),
                     base::format_bytes(most), base::format_bytes(total));
}

}  // namespace lockstep::comm

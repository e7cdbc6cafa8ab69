// BucketPlan: how the flat gradient buffer is cut into buckets, one collective each.
//
// A pure function of its arguments (sizes, the order in which gradients get ready, limits or a cost
// model), equal on every rank and known before the first step. A bucket is a range of the flat
// buffer of one segment (dtype) and may end inside a tensor. Buckets follow the order of readiness.
//
// Gradients are packed until the limit is reached, and the one that lies across it is cut there, so
// that n bytes make at most n / limit + 1 buckets. A tensor larger than the limit starts a bucket
// of its own and is cut into equal pieces, so that none of them is a small remainder that costs a
// collective of its own, and that small tensors before and after it do not wait for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/cost_model.h"
#include "framework/base/dtype.h"

namespace lockstep::comm {

struct GradientRange {  // one parameter's gradient, as it lies in the flat buffer
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct SegmentLayout {
  DType dtype = DType::float32;
  std::int64_t count = 0;                     // of the whole flat buffer, padding included
  std::vector<GradientRange> gradients = {};  // ascending
};

struct Bucket {
  std::size_t segment = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  DType dtype = DType::float32;  // of the segment
  std::int64_t count() const { return end - begin; }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * base::size_of(dtype); }
  bool operator==(const Bucket&) const = default;
};

struct BucketPlanOptions {
  // data_parallel.bucket_mib; at least 64. None: balanced_bucket_bytes() of all gradients.
  std::optional<std::size_t> bucket_bytes = std::size_t{4} << 20;
  // data_parallel.first_bucket_mib: a smaller first one starts communication earlier. At least 64;
  // the smaller of both holds.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  CostModel cost = {};
};

// The size at which many buckets' latencies and one bucket's time on the wire, which nothing hides
// when the last gradient is there, add up to least: of a total of T bytes in buckets of s, the sum
// latency * T / s + s / bandwidth is least at s = sqrt(T * latency * bandwidth). Between 64 KiB and
// 64 MiB.
std::size_t balanced_bucket_bytes(std::size_t total_bytes, const CostModel& cost);

struct BucketPlan {
  std::vector<Bucket> buckets;
  // One line for each bucket, "bucket 0: segment 0, float32 [0, 262144)": equal texts, equal plans.
  std::string list() const;
  // One line for the log: "12 buckets of 0.9 MiB to 4.0 MiB, 41.2 MiB in all".
  std::string describe() const;
};

// Throws UsageError for a limit below 64 bytes and for gradients that are not ascending, disjoint
// and within their segment.
BucketPlan plan_buckets(const std::vector<SegmentLayout>& segments,
                        const BucketPlanOptions& options);

}  // namespace lockstep::comm

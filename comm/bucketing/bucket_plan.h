// BucketPlan: how the flat gradient buffer is cut into buckets, one collective each.
//
// A pure function of its arguments, equal on every rank. A bucket is a range of the flat buffer of one
// segment (dtype) and may end inside a tensor. Buckets follow the order in which gradients get ready.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/dtype.h"

namespace lockstep::comm {

struct GradientRange {      // one parameter's gradient, as it lies in the flat buffer
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct SegmentLayout {
  DType dtype = DType::float32;
  std::int64_t count = 0;                 // of the whole flat buffer, padding included
  std::vector<GradientRange> gradients;   // ascending
};

struct Bucket {
  std::size_t segment = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct BucketPlanOptions {
  std::size_t bucket_bytes = std::size_t{4} << 20;        // data_parallel.bucket_mib
  std::size_t first_bucket_bytes = std::size_t{1} << 20;  // data_parallel.first_bucket_mib
};

struct BucketPlan {
  std::vector<Bucket> buckets;
  std::uint64_t hash() const;
  std::string describe() const;  // one line for the log
};

BucketPlan plan_buckets(const std::vector<SegmentLayout>& segments, const BucketPlanOptions& options);

}  // namespace lockstep::comm

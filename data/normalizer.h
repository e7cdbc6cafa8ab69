// Normalizer: stored features (uint8, float32) to what a model takes (float32, float64), a row at a
// time. Private to this folder.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/dataset_file.h"

namespace lockstep::data {

// (x * scale - mean) / std is computed as x * factor + offset in the type of the result, with one
// multiplication and one addition, so that every build gives the same bits. Immutable, thread-safe.
class Normalizer {
 public:
  Normalizer(const DatasetInfo& info, DType result);  // throws UsageError: not a floating type

  // `row` and `out` hold one sample.
  void operator()(const std::byte* row, std::byte* out) const;

  // One for each channel; the elements of a sample are channel by channel.
  std::span<const double> factor() const { return factor_; }
  std::span<const double> offset() const { return offset_; }

 private:
  template <class Stored, class Result>
  void apply(const Stored* row, Result* out) const;

  DType stored_;
  DType result_;
  std::size_t channels_;  // 1 when all elements are treated alike
  std::size_t channel_elements_;
  std::vector<double> factor_;  // one for each channel
  std::vector<double> offset_;
};

}  // namespace lockstep::data

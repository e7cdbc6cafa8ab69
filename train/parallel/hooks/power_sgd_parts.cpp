#include "train/parallel/hooks/power_sgd_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::train {

BucketParts parts_of(const comm::Bucket& bucket, const nn::ParameterArena& arena, int rank) {
  BucketParts parts;
  std::int64_t done = bucket.begin;
  const auto leave = [&](std::int64_t end) {
    if (end == done) return;
    parts.rest.push_back({done - bucket.begin, end - bucket.begin});
    parts.others += end - done;
  };
  for (const auto& entry : arena.segments()[bucket.segment].entries) {
    const Shape& shape = entry.parameter.shape();
    if (shape.rank() < 2 || shape.count() == 0) continue;
    const std::int64_t columns = shape.count() / shape[0];
    const std::int64_t first =
        (std::max(bucket.begin - entry.begin, std::int64_t{0}) + columns - 1) / columns;
    const std::int64_t rows = (std::min(bucket.end, entry.end) - entry.begin) / columns - first;
    if (bucket.end <= entry.begin || rows <= 0) continue;
    if (2 * rank * (rows + columns) > rows * columns) continue;
    const std::int64_t begin = entry.begin + first * columns;
    leave(begin);
    parts.matrices.push_back({.name = fmt::format("{}/{}", entry.name, first),
                              .begin = begin - bucket.begin,
                              .rows = rows,
                              .columns = columns,
                              .left = parts.left,
                              .right = parts.right});
    parts.left += rank * rows;
    parts.right += rank * columns;
    done = begin + rows * columns;
  }
  leave(bucket.end);
  return parts;
}

}  // namespace lockstep::train

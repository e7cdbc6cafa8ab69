#include "train/timeline/interval.h"

#include <algorithm>

namespace lockstep::train {

double seconds(const Interval& interval) {
  return std::chrono::duration<double>(interval.end - interval.begin).count();
}

void unite(std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::size_t kept = 0;
  for (const Interval& interval : intervals) {
    if (kept > 0 && interval.begin <= intervals[kept - 1].end)
      intervals[kept - 1].end = std::max(intervals[kept - 1].end, interval.end);
    else
      intervals[kept++] = interval;
  }
  intervals.resize(kept);
}

double total(std::span<const Interval> intervals) {
  double sum = 0;
  for (const Interval& interval : intervals) sum += seconds(interval);
  return sum;
}

double intersection(std::span<const Interval> a, std::span<const Interval> b) {
  double sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Interval common{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (common.begin < common.end) sum += seconds(common);
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return sum;
}

}  // namespace lockstep::train

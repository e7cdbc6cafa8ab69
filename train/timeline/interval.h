// Intervals of time on one clock, and how much of one set lies within another.
#pragma once

#include <span>
#include <vector>

#include "framework/device/stream.h"

namespace lockstep::train {

struct Interval {
  device::Clock::time_point begin, end;
};
double seconds(const Interval& interval);

// Sorts the intervals and joins those that touch or overlap.
void unite(std::vector<Interval>& intervals);

// Both ascending and disjoint, as unite() leaves them; in seconds.
double total(std::span<const Interval> intervals);
double intersection(std::span<const Interval> a, std::span<const Interval> b);

}  // namespace lockstep::train

// Which steps of a run are traced: run.trace and run.trace_steps.
#pragma once

#include <cstdint>

namespace lockstep::train {

// Counted from 1; none by default.
struct TraceSteps {
  std::int64_t first = 1;
  std::int64_t last = 0;
  bool any() const { return first <= last; }
  bool contains(std::int64_t step) const { return first <= step && step <= last; }
};

}  // namespace lockstep::train

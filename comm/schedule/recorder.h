// Recorder: told of each step of a schedule that a rank executes, for pictures and for tests.
#pragma once

#include <cstdint>

#include "comm/schedule/schedule.h"
#include "framework/device/stream.h"

namespace lockstep::comm::schedule {

struct ExecutedStep {
  Step step;
  std::int64_t first = 0, count = 0;     // elements, within all of the data or within a chunk of it
  device::Clock::time_point start, end;  // of the work, without the wait before it
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  // On the thread that runs the collective.
  virtual void record(const ExecutedStep& step) = 0;
};

}  // namespace lockstep::comm::schedule

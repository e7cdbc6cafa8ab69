// The calls of NVTX that this project uses, for the emulated GPUs: they record for tests, thread by
// thread, what a profiler would show.
#pragma once

#include <string>
#include <vector>

namespace lockstep::emulation {

// The names of the ranges that the thread is in, outermost first, joined by '/': one for each that
// it has come into.
inline thread_local std::vector<std::string> entered_ranges;
inline thread_local std::vector<std::string> open_ranges;

}  // namespace lockstep::emulation

inline int nvtxRangePushA(const char* message) {
  using namespace lockstep::emulation;
  open_ranges.push_back(open_ranges.empty() ? message : open_ranges.back() + "/" + message);
  entered_ranges.push_back(open_ranges.back());
  return static_cast<int>(open_ranges.size()) - 1;
}

inline int nvtxRangePop() {
  using namespace lockstep::emulation;
  open_ranges.pop_back();
  return static_cast<int>(open_ranges.size());
}

// What holds for the calls of every kind of store: limits, and errors in the same words.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "framework/base/error.h"
#include "framework/device/stream.h"

namespace lockstep::comm {

// Cut to what a clock can add: "wait for ever" is written as a huge number.
inline std::chrono::milliseconds bounded(std::chrono::milliseconds timeout) {
  using namespace std::chrono;
  return std::clamp<milliseconds>(timeout, 0ms, hours(24 * 365));
}

inline device::Deadline deadline_after(std::chrono::milliseconds timeout) {
  return device::Clock::now() + bounded(timeout);
}

inline UsageError key_exists(const std::string& key) {
  return UsageError(
      fmt::format("the key '{}' is in the store already; keys are written once", key));
}

inline StartupError key_missing(const std::string& key, std::chrono::milliseconds waited) {
  return StartupError(fmt::format("the key '{}' did not appear in the store within {:.1f} s", key,
                                  std::chrono::duration<double>(waited).count()));
}

}  // namespace lockstep::comm

// Confines the calling thread of a test to one of the cores that it may use.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include "comm/memory/core_mask.h"

namespace lockstep::comm::testing {

// To the `place`-th of them.
inline void stay_on_core(int place) {
  const CoreMask mask = CoreMask::of_this_thread();
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CoreMask::most; ++cpu) {
    if (((mask.words[static_cast<std::size_t>(cpu) / 64] >> (cpu % 64)) & 1) == 0) continue;
    if (place-- > 0) continue;
    CPU_SET(cpu, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

}  // namespace lockstep::comm::testing

// Programs with one bug each, and the same without it: what the emulation is there to find.
#pragma once

#include <string>
#include <vector>

#include "tests/emulation/machine.h"

namespace lockstep::emulation::bugs {

struct Bug {
  const char* name;
  // Runs with the bug, or without it, on the machine; whether the numbers that came out are right.
  // Throws what the runtime API reports.
  bool (*run)(bool with_bug);
  MachineOptions options = {};
};

const std::vector<Bug>& kernel_bugs();  // within one kernel
const std::vector<Bug>& wait_bugs();    // between kernels that run side by side
const std::vector<Bug>& stream_bugs();  // in the host's use of streams and memory
const std::vector<Bug>& graph_bugs();   // in the capture of graphs
const std::vector<Bug>& ring_bugs();    // in the ring between GPUs

}  // namespace lockstep::emulation::bugs

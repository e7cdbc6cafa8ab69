// Where virtual time stands on the steady clock, so that it never runs backwards: not when a
// machine is made, nor when one that was ahead of real time is gone.
#pragma once

#include <cstdint>

namespace lockstep::emulation {

class VirtualClock {
 public:
  // Nanoseconds of the steady clock at which the machine's time began; without a machine, now.
  static std::uint64_t start();
  static void begin();
  static void end(std::uint64_t elapsed);
};

}  // namespace lockstep::emulation

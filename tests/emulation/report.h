// What the emulation found wrong.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::emulation {

enum class Fault : std::uint8_t {
  none,
  divergent_barrier,     // threads of a block wait at different barriers, or some have left
  warp_mismatch,         // lanes of a warp disagree about who takes part in what
  shared_overflow,       // more shared memory than a block may have, or written past an array
  uninitialised_shared,  // a result derives from shared memory that nothing was written to
  misaligned,
  out_of_bounds,  // device memory written before or behind an allocation
  deadlock,       // everyone waits for someone
  trap,
  misuse,  // of the runtime API
};
const char* name_of(Fault fault);

struct Report {
  Fault fault = Fault::none;
  std::string text;
};

}  // namespace lockstep::emulation

#include "tests/emulation/report.h"

#include <cstddef>

namespace lockstep::emulation {

const char* name_of(Fault fault) {
  static constexpr const char* names[] = {"no fault",
                                          "divergent barrier",
                                          "warp mismatch",
                                          "shared memory overflow",
                                          "uninitialised shared memory",
                                          "misaligned access",
                                          "out of bounds",
                                          "deadlock",
                                          "trap",
                                          "misuse"};
  return names[static_cast<std::size_t>(fault)];
}

}  // namespace lockstep::emulation

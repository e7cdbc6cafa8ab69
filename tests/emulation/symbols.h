// Names of functions for reports, from the program's own symbol table: kernels have internal
// linkage, which dladdr does not see.
#pragma once

#include <string>

namespace lockstep::emulation {

// The function that begins at the address or that it lies in. Demangled, without parameters; "?"
// outside the program and where it was stripped.
std::string name_of_function(const void* address);

}  // namespace lockstep::emulation

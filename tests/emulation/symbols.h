// Names of functions for reports, from the program's own symbol table: kernels have internal
// linkage, which dladdr does not see.
#pragma once

#include <string>

namespace lockstep::emulation {

// Demangled, without parameters; "?" where the program was stripped.
std::string name_of_function(const void* function);

}  // namespace lockstep::emulation

// What happens when host code touches the memory of a device, or a kernel that of a device it was
// not given access to: on a real machine a crash or an error, here a report with the place.
#pragma once

namespace lockstep::emulation {

// Takes over SIGSEGV for such addresses: prints what was touched and from where, and aborts. Leaves
// the signal to the sanitizers where there are any: they print more.
void install_memory_guard();

}  // namespace lockstep::emulation

// Waiting that spins briefly before it sleeps.
#pragma once

namespace lockstep::base {

// Tells the processor that this thread spins: saves power and leaves the core to its sibling
// thread.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `ready()` or for about `rounds` pauses (tens of nanoseconds each); returns ready().
template <class Ready>
bool spin_until(Ready&& ready, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    if (ready()) return true;
    spin_pause();
  }
  return ready();
}

}  // namespace lockstep::base

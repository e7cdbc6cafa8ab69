#include "tests/emulation/virtual_clock.h"

#include <time.h>

#include <atomic>

namespace lockstep::emulation {
namespace {

std::atomic<std::uint64_t> ahead_of_real{0};
std::atomic<std::uint64_t> started{0};  // 0 without a machine

std::uint64_t real_now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

std::uint64_t VirtualClock::start() {
  const std::uint64_t at = started.load();
  return at != 0 ? at : real_now() + ahead_of_real.load();
}

void VirtualClock::begin() {
  started = real_now() + ahead_of_real.load();
}

void VirtualClock::end(std::uint64_t elapsed) {
  const std::uint64_t now = started.load() + elapsed;
  const std::uint64_t real = real_now();
  if (now > real + ahead_of_real.load()) ahead_of_real = now - real;
  started = 0;
}

}  // namespace lockstep::emulation

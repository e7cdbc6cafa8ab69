#include "comm/memory/signal.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace lockstep::comm {
namespace {

// steady_clock counts CLOCK_MONOTONIC, which is what FUTEX_WAIT_BITSET takes deadlines in.
timespec to_timespec(device::Deadline deadline) {
  using namespace std::chrono;
  const auto since = deadline.time_since_epoch();
  const auto whole = duration_cast<seconds>(since);
  return {static_cast<time_t>(whole.count()),
          static_cast<long>(duration_cast<nanoseconds>(since - whole).count())};
}

// Without FUTEX_PRIVATE_FLAG: the ranks may be processes.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* deadline) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, deadline,
                 nullptr, FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

void sleep_on(Signal& signal, std::uint32_t seen, device::Deadline until) {
  signal.has_sleeper.store(1, std::memory_order_seq_cst);
  const timespec deadline = to_timespec(until);
  // Every outcome (woken, value differs, interrupted, time over) means: look again.
  futex(signal.value, FUTEX_WAIT_BITSET, seen, &deadline);
}

void wake_sleepers(Signal& signal) {
  futex(signal.value, FUTEX_WAKE_BITSET, INT_MAX, nullptr);
}

}  // namespace lockstep::comm

// Signal: a word in memory that ranks share, on which a rank can wait for another.
//
// Waiting is a shared futex with a deadline: std::atomic::wait is private to a process and has
// none. A zeroed Signal is valid, so it may be laid into fresh group memory as it is. Nothing in it
// is ever held, so a rank that is killed at any instruction leaves it usable.
#pragma once

#include <atomic>
#include <cstdint>

#include "framework/device/stream.h"

namespace lockstep::comm {

struct alignas(8) Signal {
  std::atomic<std::uint32_t> value{0};
  // 1 where a rank may be asleep on `value`; lets the writer skip the system call otherwise.
  std::atomic<std::uint32_t> has_sleeper{0};
};
static_assert(sizeof(Signal) == 8 && std::atomic<std::uint32_t>::is_always_lock_free);

// Sleeps while `signal.value` is `seen`, until woken or until `until`. May return early; in the
// rare case that the writer was killed between its store and its wake-up, returns only at `until`.
void sleep_on(Signal& signal, std::uint32_t seen, device::Deadline until);

// Wakes every rank asleep on `signal`; a system call.
void wake_sleepers(Signal& signal);

// Stores `value` with release and wakes whoever sleeps on the signal.
inline void post(Signal& signal, std::uint32_t value) {
  // The mark is cleared before the store, so that it stays set for a rank that sees this value and
  // goes to sleep waiting for the next; and is looked at again after the store, sequentially
  // consistent on both sides: either this sees that there is a sleeper, or its last look before
  // sleeping sees the value. So a writer that posts again before the woken ranks run makes no
  // further system call.
  const bool sleeping = signal.has_sleeper.load(std::memory_order_relaxed) != 0 &&
                        signal.has_sleeper.exchange(0, std::memory_order_seq_cst) != 0;
  signal.value.store(value, std::memory_order_seq_cst);
  if (sleeping || signal.has_sleeper.load(std::memory_order_seq_cst) != 0) wake_sleepers(signal);
}

}  // namespace lockstep::comm

// Scoreboard: what the launcher and the ranks of a run share in memory, a few words for each rank.
#pragma once

#include <atomic>
#include <cstdint>

#include "comm/memory/mapped_memory.h"

namespace lockstep::train {

// Thread-safe. Holds no lock, so a rank that is killed leaves it usable.
class Scoreboard {
 public:
  static Scoreboard make_private(int ranks);  // for threads
  static Scoreboard make_shared(int ranks);   // for processes, which map its descriptor
  static Scoreboard map_shared(comm::Descriptor file, int ranks);

  int descriptor() const { return memory_.descriptor(); }
  int ranks() const { return ranks_; }

  // The signal with which the user asked the run to stop; 0 when he has not.
  int stop_signal() const { return header().stop_signal.load(std::memory_order_relaxed); }
  void ask_to_stop(int signal) { header().stop_signal.store(signal, std::memory_order_relaxed); }

  // 0 while the rank has not begun its first step.
  std::int64_t step(int rank) const { return slot(rank).step.load(std::memory_order_relaxed); }
  void set_step(int rank, std::int64_t step) {
    slot(rank).step.store(step, std::memory_order_relaxed);
  }

  // Whether the rank's work is done, so that its end is no loss.
  bool is_done(int rank) const { return slot(rank).done.load(std::memory_order_acquire); }
  void set_done(int rank) { slot(rank).done.store(true, std::memory_order_release); }

  // Numbers the failures of a run in the order in which they happened.
  std::int64_t next_failure() { return header().failures.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct alignas(64) Header {
    std::atomic<int> stop_signal;
    std::atomic<std::int64_t> failures;
  };
  struct alignas(64) Slot {
    std::atomic<std::int64_t> step;
    std::atomic<bool> done;
  };
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);

  Scoreboard(comm::MappedMemory memory, int ranks) : memory_(std::move(memory)), ranks_(ranks) {}
  static std::size_t bytes(int ranks);
  Header& header() const;
  Slot& slot(int rank) const;

  comm::MappedMemory memory_;
  int ranks_;
};

}  // namespace lockstep::train

// Barrier: a point that no rank of a group passes before all have reached it.
//
// One counter that every rank adds to, one signal that the last one posts: with more ranks than
// cores every rank sleeps and is woken at most once for each barrier, where a dissemination barrier
// would do so log2(n) times. What a rank wrote before it arrived is visible to all after they
// return. A rank can be at most one barrier ahead of another, so two sets of slots used in turn
// need no second barrier.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/memory/group.h"

namespace lockstep::comm {

class Barrier {
 public:
  // Bytes of group memory that a barrier of `ranks` needs.
  static std::size_t bytes(int ranks);

  // `memory` is the same zeroed, 64-byte aligned memory on every rank (rank 0's part of a symmetric
  // buffer, say), used by this barrier alone. It and `group` must outlive this object.
  Barrier(const Group& group, std::span<std::byte> memory);

  // `late(rank)` makes the RankError to throw when the deadline passed before `rank` arrived.
  // Called from one thread of each rank at a time. After an error the barrier is of no further use.
  template <class Late>
  void arrive_and_wait(device::Deadline deadline, Late&& late) {
    if (arrive()) return;
    const auto released = [this](std::uint32_t value) {
      return static_cast<std::int32_t>(value - round_) >= 0;
    };
    while (!group_.wait_until(state_->released, released, deadline))
      // Nobody: the last one came at this very moment.
      if (const int missing = first_missing(); missing >= 0) throw late(missing);
  }

 private:
  struct alignas(64) State {
    std::atomic<std::uint32_t> arrived;
    Signal released;
  };
  // The last round that a rank arrived at: says who is missing.
  struct alignas(64) Arrival {
    std::atomic<std::uint32_t> round;
  };

  bool arrive();              // true for the last one, which has released the others
  int first_missing() const;  // -1: nobody

  const Group& group_;
  State* state_;
  Arrival* arrivals_;
  std::uint32_t round_ = 0;
};

}  // namespace lockstep::comm

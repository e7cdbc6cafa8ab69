// YieldBudget: how often a waiting rank should give its core to others before it sleeps.
//
// Where more ranks than cores wait for each other, a yield hands the core to the rank that is
// waited for in less than a microsecond, and nobody has to be woken, which takes several. Where
// threads compute, as in an overlapped backward, the scheduler lets a rank that yields wait for
// their whole time slice (measured: 4 ms for a barrier, against 4 us asleep). So a rank's
// communication thread never yields, beside which the rank itself computes; and a rank that comes
// back late yields no more for 50 times as long: no more than 2 % of its time is lost that way.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "framework/device/stream.h"

namespace lockstep::comm {

// Thread-safe; threads that wait at once share the lesson.
class YieldBudget {
 public:
  static constexpr std::chrono::microseconds late{100};
  static constexpr int rest = 50;  // times what a late one took

  // Before any wait, by the rank's own thread.
  void set_most(int most) {
    most_ = most;
    rank_thread_ = std::this_thread::get_id();
  }

  // Of one wait.
  int yields() const {
    return most_ > 0 && std::this_thread::get_id() == rank_thread_ &&
                   device::Clock::now().time_since_epoch() >= resting_until_.load()
               ? most_
               : 0;
  }
  // Whether it was back soon; otherwise the wait is better spent asleep.
  bool yield() {
    const auto start = device::Clock::now();
    sched_yield();
    return note(start, device::Clock::now());
  }
  bool note(device::Clock::time_point start, device::Clock::time_point end) {
    if (end - start < late) return true;
    resting_until_.store((end + rest * (end - start)).time_since_epoch());
    return false;
  }

 private:
  int most_ = 0;
  std::thread::id rank_thread_;
  std::atomic<device::Clock::duration> resting_until_{device::Clock::duration::min()};
};

}  // namespace lockstep::comm

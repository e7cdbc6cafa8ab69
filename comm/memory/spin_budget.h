// SpinBudget: how long a rank should poll before it sleeps, learnt from the waits so far.
//
// Polling pays where the rank that is waited for runs at the same moment, and takes time from it
// where it does not (more ranks than cores, threads that compute, other programs). Which of the two
// holds changes while a program runs, so the budget doubles with each wait that polling ended and
// halves with each that it did not. Now and then a wait takes the whole budget: two ranks that both
// sleep at once would otherwise never find out that they need not.
#pragma once

#include <algorithm>
#include <atomic>

namespace lockstep::comm {

// Thread-safe; threads that wait at once may lose each other's lessons.
class SpinBudget {
 public:
  explicit SpinBudget(int most = 0) : most_(most), now_(most) {}

  // Before any wait.
  void set_most(int most) { now_ = most_ = most; }

  int looks() {
    const unsigned wait = waits_.load(std::memory_order_relaxed);
    waits_.store(wait + 1, std::memory_order_relaxed);
    return wait % 64 == 0 ? most_ : now_.load(std::memory_order_relaxed);
  }
  void paid() {
    const int now = now_.load(std::memory_order_relaxed);
    if (now < most_) now_.store(std::min(most_, 2 * now + 16), std::memory_order_relaxed);
  }
  void failed() { now_.store(now_.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed); }

 private:
  int most_;
  std::atomic<int> now_;
  std::atomic<unsigned> waits_{0};
};

}  // namespace lockstep::comm

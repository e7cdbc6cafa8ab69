// RollCall: which rank is at fault when a collective does not end and no connection says whose
// fault that is. Every rank that is able to writes into the store that it is waiting in the call;
// whoever has not is stopped, stuck or gone.
//
// StuckWatch: the same for libraries whose calls nothing can end. A thread watches over them, and
// says that a call has passed its deadline, since the thread in the call cannot.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/host_communicator.h"
#include "comm/store/store.h"

namespace lockstep::comm {

// Thread-safe.
class RollCall {
 public:
  // `prefix` is this group's own in the store, which outlives this.
  RollCall(Store& store, std::string prefix, int rank, int size)
      : store_(store), prefix_(std::move(prefix)), rank_(rank), size_(size) {}

  // This rank has come as far as the call of that number, and can say so. Does not throw.
  void answer(std::uint64_t sequence) noexcept;
  // The ranks that have not answered for this call or a later one, once all have or `patience` has
  // passed; of them those that have come least far, since a rank may wait in an earlier call for
  // one that is stuck. None where the store is gone.
  std::vector<int> missing(std::uint64_t sequence, std::chrono::milliseconds patience);

 private:
  std::string counter(int rank) const;  // how many calls it has answered for

  Store& store_;
  std::string prefix_;
  int rank_, size_;
  std::mutex mutex_;
  std::int64_t answered_ = 0;
};

// What ranks say about a call that has passed its deadline. `named`: the rank that somebody already
// takes to be at fault, -1 where nobody does.
RankError overdue(RollCall& roll_call, const Collective& call, int named, std::string_view verb);

class StuckWatch {
 public:
  using OnStuck = std::function<void(const RankError&)>;

  // `on_stuck` is called on the watch's thread, once at most.
  StuckWatch(RollCall& roll_call, OnStuck on_stuck);
  ~StuckWatch();
  StuckWatch(const StuckWatch&) = delete;
  StuckWatch& operator=(const StuckWatch&) = delete;

  // Lives as long as a call that is watched over, if there is a watch.
  class Guard {
   public:
    Guard(std::optional<StuckWatch>& watch, const Collective& call)
        : watch_(watch ? &*watch : nullptr) {
      if (watch_ != nullptr) watch_->set(call);
    }
    ~Guard() {
      if (watch_ != nullptr) watch_->set(std::nullopt);
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    StuckWatch* watch_;
  };

 private:
  void set(const std::optional<Collective>& call) {
    const std::lock_guard lock(mutex_);
    call_ = call;
  }
  void watch();

  RollCall& roll_call_;
  OnStuck on_stuck_;
  std::mutex mutex_;
  std::condition_variable leave_;
  std::optional<Collective> call_;  // in progress
  bool leaving_ = false;
  std::thread thread_;  // the last, which uses the others
};

}  // namespace lockstep::comm

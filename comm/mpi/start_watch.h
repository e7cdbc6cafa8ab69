// StartWatch: a deadline for the start of MPI, which takes all ranks, blocks, and has none.
//
// A thread waits beside the one that starts MPI. When the time is over, the ranks that can still do
// something say so through the store; who does not is named, to somebody who can end this process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "comm/message/roll_call.h"
#include "comm/store/store.h"

namespace lockstep::comm {

class StartWatch {
 public:
  using OnStuck = std::function<void(const std::exception&)>;

  // MPI starts during the life of this object. `on_stuck` is called on another thread, once at
  // most, with a StartupError; it may be empty. The store outlives this.
  StartWatch(Store& store, int rank, int size, std::chrono::milliseconds timeout, OnStuck on_stuck);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void watch();
  bool started_within(std::chrono::milliseconds time);

  std::chrono::milliseconds timeout_;
  OnStuck on_stuck_;
  RollCall roll_call_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  std::thread thread_;  // the last, which uses the others
};

}  // namespace lockstep::comm

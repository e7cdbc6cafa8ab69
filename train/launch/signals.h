// The signals that the launcher takes while it runs: SIGINT, SIGTERM and SIGCHLD, as something to
// poll.
#pragma once

#include <csignal>

#include "comm/store/descriptor.h"

namespace lockstep::train {

// Blocks the signals for the calling thread and those it starts, and gives them back at the end.
// Signals that came meanwhile are gone then.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.get(); }
  int take() const;  // the next signal, 0 when there is none

 private:
  sigset_t previous_mask_{};
  struct sigaction previous_child_action_ {};
  comm::Descriptor descriptor_;
};

// A descriptor from which blocked signals are read, without waiting.
comm::Descriptor open_signals(const sigset_t& signals);
int read_signal(const comm::Descriptor& descriptor);  // 0 when there is none

}  // namespace lockstep::train

#include "train/launch/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "framework/base/error.h"

namespace lockstep::train {

comm::Descriptor open_signals(const sigset_t& signals) {
  comm::Descriptor descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor) {
    throw StartupError(std::string("cannot wait for signals: ") + std::strerror(errno));
  }
  return descriptor;
}

int read_signal(const comm::Descriptor& descriptor) {
  signalfd_siginfo info{};
  const ssize_t size = ::read(descriptor.get(), &info, sizeof info);
  return size == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

Signals::Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals, signal);
  descriptor_ = open_signals(signals);
  // Where the parent left SIGCHLD ignored, ended children could not be waited for.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, &previous_child_action_);
  ::pthread_sigmask(SIG_BLOCK, &signals, &previous_mask_);
}

Signals::~Signals() {
  while (take() != 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
  ::sigaction(SIGCHLD, &previous_child_action_, nullptr);
}

int Signals::take() const {
  return read_signal(descriptor_);
}

}  // namespace lockstep::train

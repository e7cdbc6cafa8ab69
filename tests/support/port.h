// A port for a program that a test tells where to listen.
#pragma once

#include <unistd.h>

#include "comm/store/socket.h"
#include "framework/base/error.h"

namespace lockstep::tests {

// A TCP port of the loopback on which nobody listens. It lies below those that the kernel gives out
// by itself (net.ipv4.ip_local_port_range), one of which may be somebody's a moment later, and
// every process begins to look at a place of its own: tests that run side by side get different
// ones.
inline int free_port() {
  constexpr int first = 10'000, count = 20'000, step = 1'009;
  for (int attempt = 0; attempt < count; ++attempt) {
    const int port = first + (getpid() + attempt * step) % count;
    try {
      comm::listen_tcp("127.0.0.1", port);
      return port;
    } catch (const StartupError&) {
    }
  }
  throw StartupError("every port is taken");
}

}  // namespace lockstep::tests

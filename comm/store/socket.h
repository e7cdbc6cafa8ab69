// The few things that sockets are used for here. All of them close on exec; none raises SIGPIPE.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "comm/store/descriptor.h"
#include "framework/device/stream.h"

namespace lockstep::comm {

// Waits until `fd` is ready for `events` (POLLIN, POLLOUT); false when the deadline passed first.
bool wait_for(int fd, short events, device::Deadline deadline);

void set_non_blocking(int fd);
// Small messages leave at once. Does nothing on a socket that is not TCP.
void set_no_delay(int fd);

// Listens on host:port; port 0 takes a free one. A numeric host and "localhost" need no look-up of
// names. StartupError naming host, port and reason.
Descriptor listen_tcp(const std::string& host, int port);
int local_port(const Descriptor& socket);

// Retries until the deadline; StartupError naming host, port and the last reason. The socket does
// not block.
Descriptor connect_tcp(const std::string& host, int port, device::Deadline deadline);

}  // namespace lockstep::comm

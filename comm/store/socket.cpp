#include "comm/store/socket.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "framework/base/error.h"

namespace lockstep::comm {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, int port) {
  // A machine whose resolver is broken still has its loopback.
  const std::string name = host == "localhost" ? "127.0.0.1" : host;
  const std::string service = std::to_string(port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  int error = getaddrinfo(name.c_str(), service.c_str(), &hints, &found);
  if (error == EAI_NONAME) {  // not a number: look the name up
    hints.ai_flags = AI_NUMERICSERV;
    error = getaddrinfo(name.c_str(), service.c_str(), &hints, &found);
  }
  if (error != 0)
    throw StartupError(fmt::format("cannot resolve the host '{}': {}", host, gai_strerror(error)));
  return {found, freeaddrinfo};
}

// Connects to one address; 0 or the error number.
int connect_to(const addrinfo& address, device::Deadline deadline, Descriptor& socket) {
  socket = Descriptor(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(socket.get(), POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace

bool wait_for(int fd, short events, device::Deadline deadline) {
  using namespace std::chrono;
  pollfd entry{fd, events, 0};
  while (true) {
    const auto left = std::max(ceil<milliseconds>(deadline - device::Clock::now()), 0ms);
    const int ready = poll(&entry, 1, static_cast<int>(std::min(left, 60'000ms).count()));
    if (ready > 0) return true;
    if (ready == 0 && device::Clock::now() >= deadline) return false;
  }
}

void set_non_blocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void set_no_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Descriptor listen_tcp(const std::string& host, int port) {
  const Addresses address = resolve(host, port);
  const auto fail = [&] {
    return StartupError(
        fmt::format("cannot listen on {} port {}: {}", host, port, std::strerror(errno)));
  };
  Descriptor socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw fail();
  // Connections of an earlier run that are still winding down do not hold the port.
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket.get(), address->ai_addr, address->ai_addrlen) != 0) throw fail();
  if (listen(socket.get(), SOMAXCONN) != 0) throw fail();
  return socket;
}

int local_port(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw StartupError(fmt::format("getsockname: {}", std::strerror(errno)));
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

Descriptor connect_tcp(const std::string& host, int port, device::Deadline deadline) {
  const Addresses addresses = resolve(host, port);
  while (true) {
    int error = 0;
    for (const addrinfo* address = addresses.get(); address; address = address->ai_next) {
      Descriptor socket;
      error = connect_to(*address, deadline, socket);
      if (error == 0) {
        set_no_delay(socket.get());
        return socket;
      }
    }
    constexpr std::chrono::milliseconds pause{20};
    if (device::Clock::now() + pause >= deadline)
      throw StartupError(
          fmt::format("cannot connect to {} port {}: {}", host, port, std::strerror(error)));
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace lockstep::comm

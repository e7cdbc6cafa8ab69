#include "comm/mpi/seats.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <span>
#include <thread>

#include "comm/store/socket.h"
#include "framework/base/error.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

// The variables that make a place in a job.
constexpr std::array<std::string_view, 5> prefixes = {"OMPI_", "PMIX_", "PMI_", "ORTE_", "PRTE_"};

bool is_of_a_place(std::string_view variable) {
  for (const std::string_view prefix : prefixes)
    if (variable.starts_with(prefix)) return true;
  return false;
}

// What goes over the socket: the affinity, then the variables, each ended by a zero byte.
struct Header {
  std::uint64_t variables_bytes = 0;
  cpu_set_t cores{};
};
constexpr std::uint64_t most_bytes = 1 << 20;

struct Address {
  sockaddr_un name{};
  socklen_t length = 0;
};

// A name that starts with a zero byte is in no file system.
Address address_of(const std::string& seats, int rank) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::string name = fmt::format("{}.{}", seats, rank);
  const std::size_t length = name.copy(address.name.sun_path + 1, sizeof address.name.sun_path - 1);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

const sockaddr* pointer(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.name);
}

Descriptor make_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket)
    throw StartupError(fmt::format("cannot make a Unix socket: {}", std::strerror(errno)));
  return socket;
}

bool same_user(const Descriptor& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == geteuid();
}

bool receive_all(const Descriptor& socket, std::span<char> bytes, device::Deadline deadline) {
  while (!bytes.empty()) {
    if (!wait_for(socket.get(), POLLIN, deadline)) return false;
    const ssize_t size = recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(size));
  }
  return true;
}

std::string own_variables() {
  std::string all;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (is_of_a_place(*variable)) all.append(*variable).push_back('\0');
  return all;
}

void replace_variables(const std::string& variables) {
  std::vector<std::string> old;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (is_of_a_place(*variable)) old.emplace_back(*variable, std::strcspn(*variable, "="));
  for (const std::string& name : old) ::unsetenv(name.c_str());
  for (std::size_t begin = 0; begin < variables.size();) {
    const std::string variable = variables.c_str() + begin;
    const std::size_t equals = variable.find('=');
    if (equals != variable.npos)
      ::setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
    begin += variable.size() + 1;
  }
}

// Whether `socket` is somebody who takes the seat rather than looks whether it is there.
bool lend_to(const Descriptor& socket) {
  char wish = 0;
  if (!same_user(socket) ||
      !receive_all(socket, {&wish, 1}, device::Clock::now() + milliseconds(2000)))
    return false;
  const std::string variables = own_variables();
  Header header;
  header.variables_bytes = variables.size();
  ::sched_getaffinity(0, sizeof header.cores, &header.cores);
  std::string message(reinterpret_cast<const char*>(&header), sizeof header);
  message += variables;
  return ::send(socket.get(), message.data(), message.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(message.size());
}

// A place whose taker is lost is kept until this process is killed: when it ends, mpirun ends the
// job, and MPI the ranks that still have something to say about what happened.
void wait_for_return(const Descriptor& taker) {
  char message = 0;
  ssize_t size = 0;
  do size = recv(taker.get(), &message, 1, 0);
  while (size < 0 && errno == EINTR);
  while (size <= 0) ::pause();
}

std::optional<int> number(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return value;
}

}  // namespace

bool lend_seat(const std::string& seats, int rank, milliseconds timeout) {
  const auto deadline = device::Clock::now() + timeout;
  const Address address = address_of(seats, rank);
  const Descriptor listener = make_socket();
  if (bind(listener.get(), pointer(address), address.length) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0)
    throw StartupError(
        fmt::format("cannot offer the MPI seat of rank {}: {}", rank, std::strerror(errno)));
  while (wait_for(listener.get(), POLLIN, deadline)) {
    const Descriptor taker(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!taker || !lend_to(taker)) continue;
    wait_for_return(taker);
    return true;
  }
  return false;
}

void give_back_seat(const Descriptor& seat) {
  static_cast<void>(::send(seat.get(), "d", 1, MSG_NOSIGNAL));
}

bool seat_is_offered(const std::string& seats, int rank) {
  const Address address = address_of(seats, rank);
  return connect(make_socket().get(), pointer(address), address.length) == 0;
}

Descriptor take_seat(const std::string& seats, int rank, milliseconds timeout) {
  const auto deadline = device::Clock::now() + timeout;
  const Address address = address_of(seats, rank);
  Descriptor socket = make_socket();
  while (connect(socket.get(), pointer(address), address.length) != 0) {
    if (device::Clock::now() >= deadline)
      throw StartupError(fmt::format("the MPI seat of rank {} was not there within {:.1f} s", rank,
                                     std::chrono::duration<double>(timeout).count()));
    std::this_thread::sleep_for(milliseconds(10));
  }
  if (!same_user(socket))
    throw StartupError(fmt::format("the MPI seat of rank {} belongs to another user", rank));
  Header header;
  std::string variables;
  bool whole = ::send(socket.get(), "t", 1, MSG_NOSIGNAL) == 1 &&
               receive_all(socket, {reinterpret_cast<char*>(&header), sizeof header}, deadline) &&
               header.variables_bytes <= most_bytes;
  if (whole) {
    variables.resize(header.variables_bytes);
    whole = receive_all(socket, variables, deadline);
  }
  if (!whole) throw StartupError(fmt::format("the MPI seat of rank {} was not given", rank));
  replace_variables(variables);
  ::sched_setaffinity(0, sizeof header.cores, &header.cores);
  return socket;
}

std::optional<MpiEnvironment> mpi_environment() {
  const auto rank = number("OMPI_COMM_WORLD_RANK"), size = number("OMPI_COMM_WORLD_SIZE");
  const auto local = number("OMPI_COMM_WORLD_LOCAL_SIZE");
  const char* const job = std::getenv("PMIX_NAMESPACE");
  if (!rank || !size || !local || job == nullptr || *rank < 0 || *rank >= *size)
    return std::nullopt;
  return MpiEnvironment{*rank, *size, *local, job};
}

}  // namespace lockstep::comm

#include "comm/memory/peer_socket.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "comm/store/socket.h"
#include "framework/base/error.h"

namespace lockstep::comm {
namespace {

// The first message of a peer; says which rank it is.
struct Introduction {
  std::uint32_t magic = 0x4c53524bu;
  std::int32_t rank = -1;
};

struct Address {
  sockaddr_un name{};
  socklen_t length = 0;
};

Address abstract_address(const std::string& name) {
  Address address;
  address.name.sun_family = AF_UNIX;
  // A name that starts with a zero byte is abstract; it has no terminator.
  const std::size_t length = name.copy(address.name.sun_path + 1, sizeof address.name.sun_path - 1);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

Descriptor make_socket() {
  // Keeps the borders of messages, so that none arrives in part.
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket)
    throw StartupError(fmt::format("cannot make a Unix socket: {}", std::strerror(errno)));
  return socket;
}

std::string random_name() {
  std::array<std::uint64_t, 2> words{};
  if (getrandom(words.data(), sizeof words, 0) != static_cast<ssize_t>(sizeof words))
    throw StartupError(fmt::format("getrandom: {}", std::strerror(errno)));
  return fmt::format("lockstep-{:016x}{:016x}", words[0], words[1]);
}

bool same_user(const Descriptor& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == geteuid();
}

// As wait_for(), but lets `still_wanted` end the wait.
bool wait_while_wanted(int fd, device::Deadline deadline, const StillWanted& still_wanted) {
  while (true) {
    const auto now = device::Clock::now();
    if (wait_for(fd, POLLIN, std::min(deadline, now + std::chrono::milliseconds(20)))) return true;
    if (now >= deadline) return false;
    still_wanted();
  }
}

// Connections that have not introduced themselves yet, oldest first.
class Strangers {
 public:
  // No more are let in while there is no room: they queue at the listener.
  bool has_room() const { return sockets_.size() < most; }

  void add(Descriptor socket) { sockets_.push_back({std::move(socket), device::Clock::now()}); }

  // Hands those who have said which rank they are to `welcome(rank, socket)`; drops the
  // misbehaving.
  template <class Welcome>
  void listen(Welcome&& welcome) {
    std::vector<Stranger> silent;
    for (Stranger& stranger : sockets_) {
      Introduction heard;
      const ssize_t bytes = recv(stranger.socket.get(), &heard, sizeof heard, MSG_DONTWAIT);
      if (bytes < 0 && errno == EAGAIN)
        silent.push_back(std::move(stranger));
      else if (bytes == sizeof heard && heard.magic == Introduction().magic)
        welcome(heard.rank, std::move(stranger.socket));
    }
    sockets_ = std::move(silent);
    if (has_room()) return;
    const auto longest = device::Clock::now() - patience;
    std::erase_if(sockets_, [&](const Stranger& stranger) { return stranger.since < longest; });
  }

  std::vector<pollfd> poll_entries() const {
    std::vector<pollfd> entries;
    for (const Stranger& stranger : sockets_) entries.push_back({stranger.socket.get(), POLLIN, 0});
    return entries;
  }

 private:
  static constexpr std::size_t most = 64;
  static constexpr std::chrono::milliseconds patience{500};

  struct Stranger {
    Descriptor socket;
    device::Deadline since;
  };

  std::vector<Stranger> sockets_;
};

}  // namespace

PeerListener::PeerListener() : address_(random_name()), socket_(make_socket()) {
  const Address address = abstract_address(address_);
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address.name), address.length) != 0 ||
      listen(socket_.get(), SOMAXCONN) != 0)
    throw StartupError(fmt::format("cannot listen on a Unix socket: {}", std::strerror(errno)));
}

std::vector<Descriptor> PeerListener::accept(int size, device::Deadline deadline,
                                             const StillWanted& still_wanted) const {
  std::vector<Descriptor> peers(static_cast<std::size_t>(size));
  int missing = size - 1;
  Strangers strangers;
  while (missing > 0 && device::Clock::now() < deadline) {
    std::vector<pollfd> entries = strangers.poll_entries();
    if (strangers.has_room()) entries.push_back({socket_.get(), POLLIN, 0});
    poll(entries.data(), entries.size(), 20);
    still_wanted();
    while (strangers.has_room()) {
      Descriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) break;
      if (same_user(socket)) strangers.add(std::move(socket));
    }
    strangers.listen([&](int rank, Descriptor socket) {
      if (rank < 1 || rank >= size || peers[static_cast<std::size_t>(rank)]) return;
      peers[static_cast<std::size_t>(rank)] = std::move(socket);
      --missing;
    });
  }
  return peers;
}

Descriptor connect_peer(const std::string& address, int rank) {
  Descriptor socket = make_socket();
  const Address name = abstract_address(address);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.name), name.length) != 0)
    return {};
  if (!same_user(socket)) throw StartupError("what listens as rank 0 belongs to another user");
  Introduction introduction;
  introduction.rank = rank;
  if (send(socket.get(), &introduction, sizeof introduction, MSG_NOSIGNAL) < 0) return {};
  return socket;
}

void send_descriptor(const Descriptor& socket, int descriptor, int peer) {
  // A descriptor travels beside data, of which there must be some.
  char data = 'm';
  iovec part{&data, sizeof data};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0)
    throw RankError(peer, fmt::format("rank {} does not take the group's memory: {}", peer,
                                      std::strerror(errno)));
}

Descriptor receive_descriptor(const Descriptor& socket, device::Deadline deadline,
                              const StillWanted& still_wanted) {
  if (!wait_while_wanted(socket.get(), deadline, still_wanted)) return {};
  char data = 0;
  iovec part{&data, sizeof data};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) <= 0) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int)))
    return {};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return Descriptor(descriptor);
}

}  // namespace lockstep::comm

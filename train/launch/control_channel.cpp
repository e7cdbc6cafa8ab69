#include "train/launch/control_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "framework/base/error.h"

namespace lockstep::train {
namespace {

struct Header {
  Message::Kind kind;
  std::int32_t rank;
  std::int32_t exit_code;
  std::uint32_t reserved;
  std::int64_t order;
};

constexpr std::size_t longest_text = 16384;

}  // namespace

std::pair<ControlChannel, ControlChannel> ControlChannel::make_pair() {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets.data()) !=
      0) {
    throw StartupError(std::string("cannot make a socket for a worker: ") + std::strerror(errno));
  }
  return {ControlChannel(comm::Descriptor(sockets[0])),
          ControlChannel(comm::Descriptor(sockets[1]))};
}

void ControlChannel::send(const Message& message) const {
  const Header header{message.kind, message.rank, message.exit_code, 0, message.order};
  const std::size_t length = std::min(message.text.size(), longest_text);
  std::string packet(sizeof header + length, '\0');
  std::memcpy(packet.data(), &header, sizeof header);
  std::memcpy(packet.data() + sizeof header, message.text.data(), length);
  while (::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

ControlChannel::Received ControlChannel::receive(Message& message) const {
  std::array<char, sizeof(Header) + longest_text> packet;
  ssize_t size = -1;
  do {
    size = ::recv(socket_.get(), packet.data(), packet.size(), 0);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Received::nothing;
  if (size < static_cast<ssize_t>(sizeof(Header))) return Received::closed;
  Header header{};
  std::memcpy(&header, packet.data(), sizeof header);
  message = {.kind = header.kind,
             .rank = header.rank,
             .exit_code = header.exit_code,
             .order = header.order,
             .text = std::string(packet.data() + sizeof header, packet.data() + size)};
  return Received::message;
}

}  // namespace lockstep::train

// ControlChannel: one end of the socket between the launcher and a worker process. Each message
// arrives whole; when the other end is gone, receiving says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "comm/store/descriptor.h"

namespace lockstep::train {

struct Message {
  enum class Kind : std::uint32_t {
    store,      // to a worker: how to reach the store; `text` is "host port secret"
    abort,      // to a worker: `rank` failed or was lost because of `text`
    failure,    // from a worker: it failed; the fields are those of Failure
    terminate,  // from a worker: somebody sent it SIGTERM
  };
  Kind kind = Kind::abort;
  std::int32_t rank = -1;
  std::int32_t exit_code = 0;
  std::int64_t order = 0;
  std::string text = {};
};

class ControlChannel {
 public:
  static std::pair<ControlChannel, ControlChannel> make_pair();  // StartupError
  explicit ControlChannel(comm::Descriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }
  void close() { socket_.reset(); }

  // Without waiting; a very long text is cut. A message to an end that is gone or does not read is
  // lost.
  void send(const Message& message) const;

  enum class Received : std::uint8_t { message, nothing, closed };
  Received receive(Message& message) const;  // without waiting

 private:
  comm::Descriptor socket_;
};

}  // namespace lockstep::train

// Service: what a store's server answers, without the sockets. A get whose key is not there yet is
// parked until it is or its time is over, so nobody polls. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "comm/store/table.h"
#include "framework/device/stream.h"

namespace lockstep::comm {

class Service {
 public:
  using Connection = std::uint64_t;
  using Send = std::function<void(Connection to, std::string frame)>;

  explicit Service(Send send) : send_(std::move(send)) {}

  // ProtocolError where the body is no request, or a greeting.
  void handle(Connection from, std::string_view body);
  // The connection is closed: nothing more is sent to it.
  void forget(Connection connection);
  // When expire() has something to do next.
  std::optional<device::Deadline> next_deadline() const;
  // Answers the parked requests whose time is over.
  void expire(device::Deadline now);

 private:
  struct Parked {
    Connection connection;
    std::uint32_t request;
    std::string key;
    device::Deadline deadline;
  };

  void answer_parked(const std::string& key, const std::string& value);

  Send send_;
  Table table_;
  std::list<Parked> parked_;
};

}  // namespace lockstep::comm

#include "comm/store/service.h"

#include <algorithm>
#include <chrono>

#include "comm/store/protocol.h"
#include "comm/store/rules.h"

namespace lockstep::comm {

void Service::handle(Connection from, std::string_view body) {
  MessageReader message(body);
  const auto kind = static_cast<Request>(message.take_u8());
  const std::uint32_t request = message.take_u32();
  switch (kind) {
    case Request::set: {
      const std::string key = message.take_text();
      const std::string value = message.take_text();
      message.expect_end();
      const bool inserted = table_.insert(key, value);
      send_(from, MessageWriter::reply(request, inserted ? Status::ok : Status::exists).frame());
      if (inserted) answer_parked(key, value);
      return;
    }
    case Request::get: {
      const std::string key = message.take_text();
      const std::chrono::milliseconds timeout(message.take_i64());
      message.expect_end();
      if (const std::string* value = table_.find(key))
        send_(from, MessageWriter::reply(request, Status::ok).put(*value).frame());
      else
        parked_.push_back({from, request, key, deadline_after(timeout)});
      return;
    }
    case Request::has: {
      auto reply = MessageWriter::reply(request, Status::ok);
      for (std::uint32_t left = message.take_u32(); left > 0; --left)
        reply.put(static_cast<std::uint8_t>(table_.find(message.take_text()) != nullptr));
      message.expect_end();
      send_(from, reply.frame());
      return;
    }
    case Request::add: {
      const std::string counter = message.take_text();
      const std::int64_t amount = message.take_i64();
      message.expect_end();
      send_(from,
            MessageWriter::reply(request, Status::ok).put(table_.add(counter, amount)).frame());
      return;
    }
    case Request::greet:
      break;
  }
  throw ProtocolError("an unknown request");
}

void Service::answer_parked(const std::string& key, const std::string& value) {
  parked_.remove_if([&](const Parked& parked) {
    if (parked.key != key) return false;
    send_(parked.connection, MessageWriter::reply(parked.request, Status::ok).put(value).frame());
    return true;
  });
}

void Service::forget(Connection connection) {
  parked_.remove_if([&](const Parked& parked) { return parked.connection == connection; });
}

std::optional<device::Deadline> Service::next_deadline() const {
  const auto first =
      std::min_element(parked_.begin(), parked_.end(),
                       [](const Parked& a, const Parked& b) { return a.deadline < b.deadline; });
  if (first == parked_.end()) return std::nullopt;
  return first->deadline;
}

void Service::expire(device::Deadline now) {
  parked_.remove_if([&](const Parked& parked) {
    if (parked.deadline > now) return false;
    send_(parked.connection, MessageWriter::reply(parked.request, Status::timeout).frame());
    return true;
  });
}

}  // namespace lockstep::comm

// The client: any number of threads share one connection. Whoever waits for a reply and finds
// nobody reading reads, and hands the replies of others to them; so there is no thread of its own,
// and a get that waits long holds up no other call.
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "comm/store/protocol.h"
#include "comm/store/rules.h"
#include "comm/store/socket.h"
#include "comm/store/store.h"
#include "framework/base/error.h"

namespace lockstep::comm {
namespace {

// How long a server may take to answer what it need not wait for, even on a busy machine.
constexpr std::chrono::seconds answer_time{30};

class ClientStore final : public Store {
 public:
  // `name` says which server this is, in messages.
  ClientStore(Descriptor socket, std::string name)
      : socket_(std::move(socket)), name_(std::move(name)) {}

  void greet(const std::string& secret, device::Deadline deadline) {
    try {
      request(Request::greet, deadline,
              [&](MessageWriter& message) { message.put(greeting_magic).put(secret); });
    } catch (const StartupError& error) {
      throw StartupError(
          fmt::format("{} took no greeting; is it another run's, or no store at all? ({})", name_,
                      error.what()));
    }
  }

  void set(const std::string& key, const std::string& value) override {
    const Reply reply = request(Request::set, deadline_after(answer_time),
                                [&](MessageWriter& message) { message.put(key).put(value); });
    if (reply.status == Status::exists) throw key_exists(key);
  }

  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    const auto bounded_timeout = bounded(timeout);
    const Reply reply = request(Request::get, deadline_after(bounded_timeout) + answer_time,
                                [&](MessageWriter& message) {
                                  message.put(key).put(std::int64_t{bounded_timeout.count()});
                                });
    if (reply.status == Status::timeout) throw key_missing(key, timeout);
    return MessageReader(reply.fields).take_text();
  }

  std::vector<bool> has(const std::vector<std::string>& keys) override {
    const Reply reply =
        request(Request::has, deadline_after(answer_time), [&](MessageWriter& message) {
          message.put(static_cast<std::uint32_t>(keys.size()));
          for (const std::string& key : keys) message.put(key);
        });
    MessageReader fields(reply.fields);
    std::vector<bool> there;
    for (std::size_t i = 0; i < keys.size(); ++i) there.push_back(fields.take_u8() != 0);
    return there;
  }

  std::int64_t add(const std::string& counter, std::int64_t amount) override {
    const Reply reply = request(Request::add, deadline_after(answer_time),
                                [&](MessageWriter& message) { message.put(counter).put(amount); });
    return MessageReader(reply.fields).take_i64();
  }

 private:
  struct Reply {
    Status status;
    std::string fields;
  };

  StartupError gone() const { return StartupError(fmt::format("{} is gone: {}", name_, broken_)); }

  template <class PutFields>
  Reply request(Request kind, device::Deadline deadline, PutFields&& put_fields) {
    const std::uint32_t number = next_number_++;
    MessageWriter message = MessageWriter::request(kind, number);
    put_fields(message);
    const std::string frame = message.frame();
    if (frame.size() > max_store_message)
      throw UsageError(fmt::format("a request of {} bytes to the store, at most {} are allowed",
                                   frame.size(), max_store_message));
    {
      const std::lock_guard lock(mutex_);
      if (!broken_.empty()) throw gone();
      awaited_[number];
    }
    send(frame, deadline);
    return await(number, deadline);
  }

  void send(const std::string& frame, device::Deadline deadline) {
    const std::lock_guard one_at_a_time(send_mutex_);
    for (std::size_t sent = 0; sent < frame.size();) {
      const ssize_t count = ::send(socket_.get(), frame.data() + sent, frame.size() - sent,
                                   MSG_DONTWAIT | MSG_NOSIGNAL);
      const int error = count < 0 ? errno : 0;
      if (count >= 0) {
        sent += static_cast<std::size_t>(count);
      } else if (error == EAGAIN && wait_for(socket_.get(), POLLOUT, deadline)) {
        continue;
      } else if (error != EINTR) {
        // Part of a request may be on its way, so no further one can follow.
        const std::lock_guard lock(mutex_);
        broken_ = error == EAGAIN ? "it takes no requests" : std::strerror(error);
        return;  // await() reports it
      }
    }
  }

  Reply await(std::uint32_t number, device::Deadline deadline) {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto mine = awaited_.find(number);
      if (mine->second) {
        Reply reply = *std::move(mine->second);
        awaited_.erase(mine);
        return reply;
      }
      if (!broken_.empty()) throw gone();
      if (device::Clock::now() >= deadline) {
        awaited_.erase(mine);  // a late reply is dropped
        throw StartupError(fmt::format("{} does not answer", name_));
      }
      if (reading_)
        changed_.wait_until(lock, deadline);
      else
        read_one(lock, deadline);
    }
  }

  // Reads until one reply is there, unlocked meanwhile, and puts it where it is awaited.
  void read_one(std::unique_lock<std::mutex>& lock, device::Deadline deadline) {
    reading_ = true;
    lock.unlock();
    std::optional<std::string> body;
    try {
      body = receive(deadline);
      lock.lock();
      if (body) deliver(*body);
    } catch (const std::exception& error) {
      if (!lock.owns_lock()) lock.lock();
      broken_ = error.what();
    }
    reading_ = false;
    changed_.notify_all();
  }

  std::optional<std::string> receive(device::Deadline deadline) {
    while (true) {
      if (auto body = take_body(received_, max_body)) return body;
      if (!wait_for(socket_.get(), POLLIN, deadline)) return std::nullopt;
      char bytes[16 * 1024];
      const ssize_t count = recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (count == 0) throw ProtocolError("it closed the connection");
      if (count > 0)
        received_.append(bytes, static_cast<std::size_t>(count));
      else if (errno != EAGAIN && errno != EINTR)
        throw ProtocolError(std::strerror(errno));
    }
  }

  void deliver(std::string_view body) {
    MessageReader message(body);
    const std::uint32_t number = message.take_u32();
    const auto status = static_cast<Status>(message.take_u8());
    const auto found = awaited_.find(number);
    if (found != awaited_.end()) found->second = Reply{status, std::string(message.rest())};
  }

  const Descriptor socket_;
  const std::string name_;

  std::atomic<std::uint32_t> next_number_{0};
  std::mutex send_mutex_;
  std::string received_;  // of the thread that reads

  std::mutex mutex_;  // for everything below
  std::condition_variable changed_;
  bool reading_ = false;
  std::string broken_;  // why the connection can be used no longer
  std::map<std::uint32_t, std::optional<Reply>> awaited_;
};

}  // namespace

std::shared_ptr<Store> connect_store(int connected_socket) {
  return std::make_shared<ClientStore>(Descriptor(connected_socket), "the store of the launcher");
}

std::shared_ptr<Store> connect_store(const std::string& host, int port, const std::string& secret,
                                     std::chrono::milliseconds timeout) {
  const device::Deadline deadline = deadline_after(timeout);
  auto store = std::make_shared<ClientStore>(connect_tcp(host, port, deadline),
                                             fmt::format("the store at {} port {}", host, port));
  store->greet(secret, deadline);
  return store;
}

}  // namespace lockstep::comm

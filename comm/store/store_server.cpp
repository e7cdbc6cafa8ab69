// The server: one thread that polls all connections and never waits for any single one.
#include <fmt/core.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/store/protocol.h"
#include "comm/store/service.h"
#include "comm/store/socket.h"
#include "framework/base/error.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::milliseconds greeting_time{2000};
// More of them queue at the listener; then each has less time, so that who opens connections
// without end only delays others.
constexpr std::ptrdiff_t most_strangers = 64;
constexpr std::chrono::milliseconds greeting_time_when_full{500};
constexpr std::chrono::milliseconds accept_pause{100};

// Takes as long wherever the first difference is, so that the time tells nothing about the secret.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

std::string name_of_peer(const sockaddr_storage& address, socklen_t length) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof host, port,
              sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return fmt::format("{} port {}", host, port);
}

struct Listener {
  Descriptor socket;
  std::string secret;
};

struct Connection {
  Descriptor socket;
  std::string name;
  // What it must prove itself with and until when; trusted where there is none.
  std::string secret = {};
  std::optional<device::Deadline> greeting_deadline = {};
  std::string received = {};
  std::string to_send = {};
  bool closed = false;
};

}  // namespace

struct StoreServer::Impl {
 public:
  explicit Impl(OnStranger on_stranger)
      : on_stranger_(std::move(on_stranger)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw StartupError(fmt::format("eventfd: {}", std::strerror(errno)));
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake();
    thread_.join();
  }

  void hand_over(Connection connection) {
    {
      const std::lock_guard lock(mutex_);
      new_connections_.push_back(std::move(connection));
    }
    wake();
  }

  void hand_over(Listener listener) {
    {
      const std::lock_guard lock(mutex_);
      new_listeners_.push_back(std::move(listener));
    }
    wake();
  }

 private:
  void wake() { eventfd_write(wake_.get(), 1); }

  void run() {
    while (take_over()) {
      wait();
      for (const Listener& listener : listeners_) accept(listener);
      for (auto& [id, connection] : connections_) {
        receive(id, connection);
        send(connection);
      }
      const auto now = device::Clock::now();
      service_.expire(now);
      const auto latest = now + hurry();
      for (auto& [id, connection] : connections_) {
        if (connection.greeting_deadline && latest >= *connection.greeting_deadline)
          drop(connection, "it sent no greeting in time");
        send(connection);
      }
      std::erase_if(connections_, [this](const auto& entry) {
        if (entry.second.closed) service_.forget(entry.first);
        return entry.second.closed;
      });
    }
  }

  // What other threads have handed over; false when it is time to end.
  bool take_over() {
    const std::lock_guard lock(mutex_);
    for (Connection& connection : new_connections_)
      connections_.emplace(next_id_++, std::move(connection));
    for (Listener& listener : new_listeners_) listeners_.push_back(std::move(listener));
    new_connections_.clear();
    new_listeners_.clear();
    return !stopping_;
  }

  void wait() {
    const auto now = device::Clock::now();
    std::optional<device::Deadline> until = service_.next_deadline();
    const auto not_after = [&](device::Deadline time) {
      until = until ? std::min(*until, time) : time;
    };
    const auto hurried = hurry();
    std::vector<pollfd> entries{{wake_.get(), POLLIN, 0}};
    if (now < accept_again_)
      not_after(accept_again_);
    else if (!is_full())
      for (const Listener& listener : listeners_)
        entries.push_back({listener.socket.get(), POLLIN, 0});
    for (const auto& [id, connection] : connections_) {
      const int events = connection.to_send.empty() ? POLLIN : POLLIN | POLLOUT;
      entries.push_back({connection.socket.get(), static_cast<short>(events), 0});
      if (connection.greeting_deadline) not_after(*connection.greeting_deadline - hurried);
    }
    using namespace std::chrono;
    const auto left = until ? std::clamp(ceil<milliseconds>(*until - now), 0ms, 60'000ms) : -1ms;
    poll(entries.data(), entries.size(), static_cast<int>(left.count()));
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
  }

  void accept(const Listener& listener) {
    while (!is_full() && device::Clock::now() >= accept_again_) {
      sockaddr_storage address{};
      socklen_t length = sizeof address;
      Descriptor socket(accept4(listener.socket.get(), reinterpret_cast<sockaddr*>(&address),
                                &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        if (errno == ECONNABORTED || errno == EINTR) continue;
        // Out of descriptors, say: the listener would stay ready and keep this thread spinning.
        if (errno != EAGAIN) accept_again_ = device::Clock::now() + accept_pause;
        return;
      }
      set_no_delay(socket.get());
      connections_.emplace(next_id_++,
                           Connection{.socket = std::move(socket),
                                      .name = name_of_peer(address, length),
                                      .secret = listener.secret,
                                      .greeting_deadline = device::Clock::now() + greeting_time});
    }
  }

  // Whether as many as may be here have not greeted yet.
  bool is_full() const {
    const auto is_stranger = [](const auto& entry) {
      return entry.second.greeting_deadline.has_value();
    };
    return std::count_if(connections_.begin(), connections_.end(), is_stranger) >= most_strangers;
  }

  // How much earlier than its deadline a stranger must greet.
  std::chrono::milliseconds hurry() const {
    return is_full() ? greeting_time - greeting_time_when_full : std::chrono::milliseconds(0);
  }

  // Takes what has arrived, a bounded amount for each round so that nobody is kept waiting for
  // long.
  void receive(Service::Connection id, Connection& connection) {
    if (connection.closed) return;
    char bytes[64 * 1024];
    const ssize_t count = recv(connection.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      if (connection.greeting_deadline) drop(connection, "it closed without a greeting");
      connection.closed = true;
      return;
    }
    connection.received.append(bytes, static_cast<std::size_t>(count));
    try {
      while (!connection.closed) {
        const bool stranger = connection.greeting_deadline.has_value();
        const auto body = take_body(connection.received, stranger ? max_greeting_body : max_body);
        if (!body) return;
        if (stranger)
          check_greeting(connection, *body);
        else
          service_.handle(id, *body);
      }
    } catch (const ProtocolError& error) {
      drop(connection, fmt::format("it sent {}", error.what()));
    }
  }

  void check_greeting(Connection& connection, std::string_view body) {
    MessageReader message(body);
    if (static_cast<Request>(message.take_u8()) != Request::greet)
      throw ProtocolError("something else than a greeting");
    const std::uint32_t number = message.take_u32();
    if (message.take_text() != greeting_magic) throw ProtocolError("an unknown greeting");
    if (!equal_in_constant_time(message.take_text(), connection.secret))
      throw ProtocolError("a wrong secret");
    message.expect_end();
    connection.greeting_deadline.reset();
    connection.to_send += MessageWriter::reply(number, Status::ok).frame();
  }

  static void send(Connection& connection) {
    if (connection.closed || connection.to_send.empty()) return;
    const ssize_t count = ::send(connection.socket.get(), connection.to_send.data(),
                                 connection.to_send.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0)
      connection.to_send.erase(0, static_cast<std::size_t>(count));
    else if (errno != EAGAIN && errno != EINTR)
      connection.closed = true;
  }

  void drop(Connection& connection, const std::string& reason) {
    if (connection.closed) return;
    connection.closed = true;
    if (on_stranger_)
      on_stranger_(
          fmt::format("the store dropped the connection of {}: {}", connection.name, reason));
  }

  const OnStranger on_stranger_;
  const Descriptor wake_;  // readable when another thread has handed something over

  std::mutex mutex_;  // for what other threads hand over
  std::vector<Connection> new_connections_;
  std::vector<Listener> new_listeners_;
  bool stopping_ = false;

  // Of the thread alone.
  std::vector<Listener> listeners_;
  std::map<Service::Connection, Connection> connections_;  // in the order in which they came
  Service::Connection next_id_ = 0;
  device::Deadline accept_again_{};
  Service service_{[this](Service::Connection to, std::string frame) {
    if (const auto found = connections_.find(to); found != connections_.end())
      found->second.to_send += frame;
  }};

  std::thread thread_;
};

StoreServer::StoreServer(OnStranger on_stranger)
    : impl_(std::make_unique<Impl>(std::move(on_stranger))) {}

StoreServer::~StoreServer() = default;

void StoreServer::serve(int connected_socket) {
  Descriptor socket(connected_socket);
  set_non_blocking(socket.get());
  impl_->hand_over(Connection{.socket = std::move(socket), .name = "a worker"});
}

int StoreServer::listen(const std::string& host, int port, const std::string& secret) {
  if (secret.size() > max_secret)
    throw UsageError(fmt::format("the store's secret has {} bytes, at most {} are allowed",
                                 secret.size(), max_secret));
  Descriptor socket = listen_tcp(host, port);
  const int taken = local_port(socket);
  impl_->hand_over(Listener{std::move(socket), secret});
  return taken;
}

}  // namespace lockstep::comm

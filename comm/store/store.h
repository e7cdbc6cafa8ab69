// Store: the key-value store through which ranks find each other.
//
// Implementations: in one process (threads), a client of a server over TCP or a socketpair.
// Thread-safe; a call that waits holds up no other one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::comm {

// The most bytes of one request to a store, keys and value together.
inline constexpr std::size_t max_store_message = std::size_t{4} << 20;

class Store {
 public:
  virtual ~Store() = default;
  // Keys are written once: UsageError naming the key when it is there already. UsageError too for a
  // request larger than max_store_message. StartupError when the server is gone (all calls).
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits until the key is there; StartupError naming the key after `timeout`.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  // Which of `keys` are there at this moment.
  virtual std::vector<bool> has(const std::vector<std::string>& keys) = 0;
  // Adds to a counter that starts at 0 and returns the new value. Counters are apart from keys: one
  // may have the name of a key, and get() does not see it.
  virtual std::int64_t add(const std::string& counter, std::int64_t amount) = 0;
};

// Ranks that are threads: all hold the same object.
std::shared_ptr<Store> make_memory_store();

// The server side, in one thread; runs until destroyed. Connections are handed to it as descriptors
// (one end of a socketpair) or accepted on a listening socket. Thread-safe.
class StoreServer {
 public:
  // Called on the server's thread, once for each connection that was dropped for what it sent or
  // did not send, with a line that says so.
  using OnStranger = std::function<void(const std::string& warning)>;

  explicit StoreServer(OnStranger on_stranger = nullptr);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  void serve(int connected_socket);  // takes ownership; trusted, needs no greeting
  // Listens on host:port; port 0 takes a free one. Returns the port. Strangers that do not give the
  // greeting with `secret` (at most 256 bytes) within 2 s are dropped without anyone waiting for
  // them. StartupError names port and reason when it is taken.
  int listen(const std::string& host, int port, const std::string& secret);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Clients. Over TCP, the connection is retried until `timeout`; StartupError naming host, port and
// reason, also where the server refuses the secret.
std::shared_ptr<Store> connect_store(int connected_socket);  // takes ownership
std::shared_ptr<Store> connect_store(const std::string& host, int port, const std::string& secret,
                                     std::chrono::milliseconds timeout);

}  // namespace lockstep::comm

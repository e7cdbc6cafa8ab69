// Store: the key-value store through which ranks find each other. Keys are written once.
//
// Implementations: in one process (threads), a client of a server over TCP or a Unix socket.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::comm {

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits until the key is there; StartupError naming the key after `timeout`.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  // Which of `keys` are there at this moment.
  virtual std::vector<bool> has(const std::vector<std::string>& keys) = 0;
  // Adds to a counter that starts at 0 and returns the new value.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
};

// Ranks that are threads: all hold the same object.
std::shared_ptr<Store> make_memory_store();

// The server side, in one thread; runs until destroyed. Connections are handed to it as descriptors
// (one end of a socketpair) or accepted on a listening socket.
class StoreServer {
 public:
  StoreServer();
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  void serve(int connected_socket);  // takes ownership
  // Listens on host:port; port 0 takes a free one. Returns the port. Strangers that do not give the
  // greeting with `secret` in time are dropped without anyone waiting for them. StartupError names
  // port and reason when it is taken.
  int listen(const std::string& host, int port, const std::string& secret);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Clients. They retry the connection until `timeout`.
std::shared_ptr<Store> connect_store(int connected_socket);  // takes ownership
std::shared_ptr<Store> connect_store(const std::string& host, int port, const std::string& secret,
                                     std::chrono::milliseconds timeout);

}  // namespace lockstep::comm

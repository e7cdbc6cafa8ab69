// GlooMesh: the connections of one rank to all others, made through our store.
#pragma once

#include <gloo/rendezvous/context.h>
#include <gloo/transport/device.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "comm/store/store.h"

namespace lockstep::comm {

// Where Gloo's sockets live. Throws StartupError naming the interface.
std::shared_ptr<gloo::transport::Device> make_gloo_device(
    const std::optional<std::string>& interface);

class GlooMesh {
 public:
  // Collective. `prefix` is used once in the store. StartupError names a rank that does not come
  // within `timeout`.
  GlooMesh(std::shared_ptr<gloo::transport::Device> device, int rank, int size, Store& store,
           std::string prefix, std::chrono::milliseconds timeout);

  const std::shared_ptr<gloo::Context>& context() const { return context_; }
  const std::shared_ptr<gloo::transport::Device>& device() const { return device_; }

  // The rank at the other end of the connection that an error message of Gloo names by its address;
  // -1 where it names none.
  int rank_in(const std::string& message) const;

 private:
  std::string addresses_key(int rank) const;

  std::shared_ptr<gloo::transport::Device> device_;
  Store& store_;
  std::string prefix_;
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace lockstep::comm

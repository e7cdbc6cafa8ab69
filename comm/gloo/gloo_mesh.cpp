#include "comm/gloo/gloo_mesh.h"

#include <fmt/format.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/address.h>
#include <gloo/transport/tcp/device.h>

#include <sstream>

#include "comm/store/rules.h"
#include "framework/base/error.h"

namespace lockstep::comm {
namespace {

// Our store as Gloo sees it. Each rank writes its addresses under its number.
class StoreAdapter final : public gloo::rendezvous::Store {
 public:
  StoreAdapter(comm::Store& store, const std::string& prefix, std::chrono::milliseconds timeout)
      : store_(store), prefix_(prefix), timeout_(timeout), deadline_(deadline_after(timeout)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(full(key), std::string(data.begin(), data.end()));
  }

  std::vector<char> get(const std::string& key) override {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_ - device::Clock::now());
    try {
      const std::string value = store_.get(full(key), std::max(left, left.zero()));
      return {value.begin(), value.end()};
    } catch (const StartupError&) {
      throw StartupError(fmt::format("backend gloo: rank {} did not come within {:.1f} s", key,
                                     std::chrono::duration<double>(timeout_).count()));
    }
  }

  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

 private:
  std::string full(const std::string& key) const { return prefix_ + "/" + key; }

  comm::Store& store_;
  const std::string& prefix_;
  std::chrono::milliseconds timeout_;
  device::Deadline deadline_;
};

}  // namespace

std::shared_ptr<gloo::transport::Device> make_gloo_device(
    const std::optional<std::string>& interface) {
  gloo::transport::tcp::attr place;
  if (interface)
    place.iface = *interface;
  else
    place.hostname = "127.0.0.1";  // an empty one would be looked up by the name of the host
  try {
    return gloo::transport::tcp::CreateDevice(place);
  } catch (const std::exception& error) {
    throw StartupError(fmt::format("backend gloo cannot use the interface {}: {}",
                                   interface.value_or("of the loopback"), error.what()));
  }
}

GlooMesh::GlooMesh(std::shared_ptr<gloo::transport::Device> device, int rank, int size,
                   Store& store, std::string prefix, std::chrono::milliseconds timeout)
    : device_(std::move(device)), store_(store), prefix_(std::move(prefix)) {
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->setTimeout(timeout);
  context_ = context;
  if (size == 1) return;
  StoreAdapter adapter(store, prefix_, timeout);
  try {
    context->connectFullMesh(adapter, device_);
  } catch (const gloo::Exception& error) {
    throw StartupError(
        fmt::format("backend gloo: rank {} cannot connect to the others: {}", rank, error.what()));
  }
  // Once connected, a rank's end of each connection has an address of its own.
  std::string addresses;
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank) addresses += context->getPair(peer)->address().str() + " ";
  store.set(addresses_key(rank), addresses);
}

std::string GlooMesh::addresses_key(int rank) const {
  return fmt::format("{}/addresses/{}", prefix_, rank);
}

int GlooMesh::rank_in(const std::string& message) const {
  for (int rank = 0; rank < context_->size; ++rank) {
    if (rank == context_->rank) continue;
    try {
      std::istringstream addresses(store_.get(addresses_key(rank), std::chrono::seconds(1)));
      for (std::string address; addresses >> address;)
        // The next character after a port must not be a digit of a longer one.
        if (const auto at = message.find(address);
            at != message.npos && (at + address.size() == message.size() ||
                                   std::isdigit(message[at + address.size()]) == 0))
          return rank;
    } catch (const Error&) {
      return -1;  // the store is gone
    }
  }
  return -1;
}

}  // namespace lockstep::comm

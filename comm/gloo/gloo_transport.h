// GlooTransport: Gloo's collectives as a Transport.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <vector>

#include "comm/gloo/gloo_mesh.h"
#include "comm/message/transport.h"

namespace lockstep::comm {

enum class GlooAlgorithm : std::uint8_t { ring, bcube };

class GlooTransport final : public Transport {
 public:
  GlooTransport(std::unique_ptr<GlooMesh> mesh, GlooAlgorithm algorithm);
  ~GlooTransport() override;

  int rank() const override { return mesh_->context()->rank; }
  int size() const override { return mesh_->context()->size; }
  std::string_view backend() const override { return "gloo"; }

  void exchange(std::span<Signature> by_rank, device::Deadline deadline,
                const LookAround& look_around) override;
  void all_reduce(const Range& data, ReduceOp op, device::Deadline deadline) override;
  void reduce(const Range& data, ReduceOp op, int root, device::Deadline deadline) override;
  void reduce_scatter(const Range& data, ReduceOp op, device::Deadline deadline) override;
  void all_gather(const Range& data, device::Deadline deadline) override;
  void broadcast(const Range& data, int root, device::Deadline deadline) override;
  void all_to_all(const Range& send, const Range& receive, device::Deadline deadline) override;
  std::unique_ptr<Transport> split(std::span<const int> members, Store& store,
                                   const std::string& prefix, device::Deadline deadline) override;
  CostModel cost() const override { return gloo_cost; }
  void end_waits() noexcept override;

 private:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

  // Calls `body` and turns what Gloo throws into a TransportError. `awaited` is the rank that it
  // waits for, -1 where that may be any.
  template <class Body>
  void guarded(device::Deadline deadline, const int& awaited, Body&& body);
  template <class Body>
  void guarded(device::Deadline deadline, Body&& body) {
    guarded(deadline, -1, std::forward<Body>(body));
  }
  Buffer buffer(void* data, std::size_t bytes) const;

  std::unique_ptr<GlooMesh> mesh_;
  GlooAlgorithm algorithm_;
  Signature sent_header_;
  std::vector<Signature> headers_;  // as they arrive, by rank
  Buffer outbox_;
  std::vector<Buffer> inboxes_;  // one for each rank, so that a late one can be named
};

}  // namespace lockstep::comm

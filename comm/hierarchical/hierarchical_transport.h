// HierarchicalTransport: the own ring between the ranks of each host, another transport between
// hosts.
//
// An all-reduce is reduce-scattered inside each host, so that each lane (see host_map.h) holds the
// host's sum of one slice; each lane all-reduces its slice between the hosts; the slices are
// gathered inside. So every byte crosses between hosts once for each host and not once for each
// rank, over as many connections as there are lanes. Large data goes in pieces: while a stream of
// its own carries one piece across, the calling thread works on the next inside the host. (The
// hierarchical all-reduce of, among others, Jia et al., "Highly Scalable Deep Learning Training
// System with Mixed-Precision", 2018.)
//
// reduce and broadcast go the same way. reduce_scatter is an all-reduce, since the slices of ranks
// do not lie host by host. all_gather and all_to_all go over the other transport alone.
#pragma once

#include <memory>
#include <string>

#include "comm/hierarchical/host_map.h"
#include "comm/message/transport.h"

namespace lockstep::comm {

class HierarchicalTransport final : public Transport {
 public:
  // Collective. `world` connects all ranks; `inside` is the ring of this rank's host, its ranks in
  // the order of their places. `prefix` is used once in the store. TransportError.
  HierarchicalTransport(std::unique_ptr<Transport> world, std::unique_ptr<Communicator> inside,
                        HostMap hosts, Store& store, const std::string& prefix,
                        device::Deadline deadline);
  ~HierarchicalTransport() override;

  int rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }
  std::string_view backend() const override { return name_; }

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
  bool wants_addressable_memory() const override { return true; }
  std::shared_ptr<SymmetricBuffer> addressable_memory(std::size_t bytes) override;
  CostModel cost() const override { return world_->cost(); }
  bool can_end_waits() const override { return world_->can_end_waits(); }
  void end_waits() noexcept override;

 private:
  class Crossing;

  // Calls `body`, which uses the ring, and turns what it throws into a TransportError.
  template <class Body>
  void within_host(device::Deadline deadline, Body&& body);
  // Calls `body`, which uses the lane, and turns its ranks into those of the world.
  template <class Body>
  void between_hosts(Body&& body);

  // Every lane's slice of `data` comes to be the reduction over this host.
  void reduce_within_host(const Range& data, ReduceOp op, device::Deadline deadline);
  // The slices of all lanes come to all ranks of this host.
  void gather_within_host(const Range& data, device::Deadline deadline);
  // Of this rank's lane; empty without one.
  Range own_slice(const Range& data) const;

  int host() const { return hosts_.host_of(rank()); }
  // Whether the ranks of this host and the lanes are the same.
  bool every_mate_has_a_lane() const { return inside_->size() == hosts_.lanes(); }

  std::unique_ptr<Transport> world_;
  std::unique_ptr<Communicator> inside_;
  HostMap hosts_;
  std::string name_;
  std::unique_ptr<Transport> lane_;  // of this rank; nullptr where it has none
  std::unique_ptr<Stream> inner_, outer_;
};

}  // namespace lockstep::comm

#include "comm/hierarchical/hierarchical_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "comm/hierarchical/pieces.h"
#include "framework/device/cpu/cpu_context.h"

namespace lockstep::comm {

// The pieces of one all-reduce on the outer stream, one after the other. What one fails with ends
// those behind it, and is thrown where it is waited for.
class HierarchicalTransport::Crossing {
 public:
  Crossing(HierarchicalTransport& transport, std::size_t pieces)
      : transport_(transport), failures_(pieces) {}

  // Where the calling thread leaves early, the memory stays until the stream is done with it.
  ~Crossing() {
    if (waited_for_ < failures_.size() && transport_.lane_) transport_.lane_->end_waits();
    transport_.outer_->synchronize();
  }
  Crossing(const Crossing&) = delete;
  Crossing& operator=(const Crossing&) = delete;

  template <class Call>
  void start(Call&& call) {
    transport_.outer_->enqueue([this, call, piece = done_.size()] {
      if (piece > 0) failures_[piece] = failures_[piece - 1];
      if (failures_[piece]) return;
      try {
        transport_.between_hosts(call);
      } catch (...) {
        failures_[piece] = std::current_exception();
      }
    });
    done_.push_back(transport_.outer_->record());
  }

  void wait_for(std::size_t piece) {
    done_[piece].wait();
    if (failures_[piece]) std::rethrow_exception(failures_[piece]);
    waited_for_ = piece + 1;
  }

 private:
  HierarchicalTransport& transport_;
  std::vector<Event> done_;
  std::vector<std::exception_ptr> failures_;  // by piece, each valid when it is done
  std::size_t waited_for_ = 0;
};

HierarchicalTransport::HierarchicalTransport(std::unique_ptr<Transport> world,
                                             std::unique_ptr<Communicator> inside, HostMap hosts,
                                             Store& store, const std::string& prefix,
                                             device::Deadline deadline)
    : world_(std::move(world)),
      inside_(std::move(inside)),
      hosts_(std::move(hosts)),
      name_(fmt::format("{}+{}", inside_->backend(), world_->backend())),
      inner_(device::make_inline_stream()),
      outer_(device::make_thread_stream("between hosts")) {
  const int place = hosts_.place_of(rank());
  const std::vector<int> members =
      place < hosts_.lanes() ? hosts_.ranks_of_lane(place) : std::vector<int>();
  lane_ = world_->split(members, store, fmt::format("{}/lane{}", prefix, place), deadline);
}

HierarchicalTransport::~HierarchicalTransport() = default;

void HierarchicalTransport::end_waits() noexcept {
  if (lane_) lane_->end_waits();
  world_->end_waits();
  try {
    inside_->abort(-1, "the ranks of all hosts were told to stop");
  } catch (const std::exception&) {
    // Out of memory: the deadline ends the wait.
  }
}

template <class Body>
void HierarchicalTransport::within_host(device::Deadline deadline, Body&& body) {
  using Kind = TransportError::Kind;
  try {
    body();
  } catch (const RankError& error) {
    const auto& mates = hosts_.ranks_of(host());
    const bool is_late = device::Clock::now() >= deadline;
    // A rank that is late may itself be waiting for another host, so none is blamed.
    const bool known =
        !is_late && error.rank() >= 0 && error.rank() < static_cast<int>(mates.size());
    throw TransportError(
        is_late ? Kind::late : Kind::lost,
        known ? mates[static_cast<std::size_t>(error.rank())] : -1,
        fmt::format("{} (as numbered inside the host of {})", error.what(), text_of(mates)));
  }
}

template <class Body>
void HierarchicalTransport::between_hosts(Body&& body) {
  using Kind = TransportError::Kind;
  if (!lane_ || hosts_.hosts() == 1) return;
  try {
    body();
  } catch (const TransportError& error) {
    // As within a host.
    const bool known = error.kind() == Kind::lost && error.rank() >= 0;
    const auto members = hosts_.ranks_of_lane(hosts_.place_of(rank()));
    throw TransportError(error.kind(), known ? members[static_cast<std::size_t>(error.rank())] : -1,
                         error.what());
  }
}

Range HierarchicalTransport::own_slice(const Range& data) const {
  if (!lane_) return {nullptr, 0, data.dtype};
  return part_of(data, slice_of(data.count, inside_->rank(), hosts_.lanes()));
}

void HierarchicalTransport::reduce_within_host(const Range& data, ReduceOp op,
                                               device::Deadline deadline) {
  within_host(deadline, [&] {
    if (every_mate_has_a_lane()) {
      inside_->reduce_scatter(data, op, *inner_).wait();
      return;
    }
    for (int lane = 0; lane < hosts_.lanes(); ++lane)
      inside_->reduce(part_of(data, slice_of(data.count, lane, hosts_.lanes())), op, lane, *inner_)
          .wait();
  });
}

void HierarchicalTransport::gather_within_host(const Range& data, device::Deadline deadline) {
  within_host(deadline, [&] {
    if (every_mate_has_a_lane()) {
      inside_->all_gather(data, *inner_).wait();
      return;
    }
    for (int lane = 0; lane < hosts_.lanes(); ++lane)
      inside_->broadcast(part_of(data, slice_of(data.count, lane, hosts_.lanes())), lane, *inner_)
          .wait();
  });
}

void HierarchicalTransport::all_reduce(const Range& data, ReduceOp op, device::Deadline deadline) {
  const int pieces = pieces_of(data);
  const auto piece = [&](int p) { return part_of(data, slice_of(data.count, p, pieces)); };
  const auto cross = [this, op, deadline](const Range& slice) {
    if (slice.count > 0) lane_->all_reduce(slice, op, deadline);
  };
  if (pieces == 1) {  // nothing to do meanwhile: the calling thread crosses itself
    reduce_within_host(data, op, deadline);
    between_hosts([&] { cross(own_slice(data)); });
    gather_within_host(data, deadline);
    return;
  }
  Crossing crossing(*this, static_cast<std::size_t>(pieces));
  for (int p = 0; p <= pieces; ++p) {
    if (p < pieces) {
      reduce_within_host(piece(p), op, deadline);
      crossing.start([cross, slice = own_slice(piece(p))] { cross(slice); });
    }
    if (p == 0) continue;
    crossing.wait_for(static_cast<std::size_t>(p - 1));
    gather_within_host(piece(p - 1), deadline);
  }
}

void HierarchicalTransport::reduce(const Range& data, ReduceOp op, int root,
                                   device::Deadline deadline) {
  const int target = hosts_.host_of(root);
  reduce_within_host(data, op, deadline);
  const Range slice = own_slice(data);
  between_hosts([&] {
    if (slice.count > 0) lane_->reduce(slice, op, target, deadline);
  });
  if (host() == target) gather_within_host(data, deadline);
}

void HierarchicalTransport::broadcast(const Range& data, int root, device::Deadline deadline) {
  const int source = hosts_.host_of(root);
  if (host() == source)
    within_host(deadline, [&] { inside_->broadcast(data, hosts_.place_of(root), *inner_).wait(); });
  const Range slice = own_slice(data);
  between_hosts([&] {
    if (slice.count > 0) lane_->broadcast(slice, source, deadline);
  });
  if (host() != source) gather_within_host(data, deadline);
}

void HierarchicalTransport::exchange(std::span<Signature> by_rank, device::Deadline deadline,
                                     const LookAround& look_around) {
  world_->exchange(by_rank, deadline, look_around);
}

void HierarchicalTransport::reduce_scatter(const Range& data, ReduceOp op,
                                           device::Deadline deadline) {
  all_reduce(data, op, deadline);
}

void HierarchicalTransport::all_gather(const Range& data, device::Deadline deadline) {
  world_->all_gather(data, deadline);
}

void HierarchicalTransport::all_to_all(const Range& send, const Range& receive,
                                       device::Deadline deadline) {
  world_->all_to_all(send, receive, deadline);
}

std::shared_ptr<SymmetricBuffer> HierarchicalTransport::addressable_memory(std::size_t bytes) {
  return inside_->addressable_memory(bytes);
}

std::unique_ptr<Transport> HierarchicalTransport::split(std::span<const int> members, Store& store,
                                                        const std::string& prefix,
                                                        device::Deadline deadline) {
  std::unique_ptr<Transport> world = world_->split(members, store, prefix + "/world", deadline);
  // The ranks of one host fall apart in the same way; the first member stands for its part.
  const int color = members.empty() ? -1 : *std::min_element(members.begin(), members.end());
  const auto place = std::find(members.begin(), members.end(), rank()) - members.begin();
  std::unique_ptr<Communicator> inside;
  within_host(deadline, [&] { inside = inside_->split(color, static_cast<int>(place)); });
  if (!world) return nullptr;
  return std::make_unique<HierarchicalTransport>(std::move(world), std::move(inside),
                                                 hosts_.of(members), store, prefix, deadline);
}

}  // namespace lockstep::comm

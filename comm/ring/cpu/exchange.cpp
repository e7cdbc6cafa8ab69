#include "comm/ring/cpu/exchange.h"

#include <fmt/format.h>
#include <unistd.h>

#include <new>

#include "framework/device/allocator.h"

namespace lockstep::comm::ring {

namespace {

constexpr std::size_t slots = 2;

std::size_t control_bytes(int ranks, std::size_t announcement_bytes) {
  return device::align_up(slots * announcement_bytes) + Barrier::bytes(ranks);
}

}  // namespace

// Each rank's part holds its two announcements; the barrier lies behind those of rank 0.
Exchange::Exchange(Group& group, device::Deadline deadline)
    : group_(group),
      control_(group.allocate(control_bytes(group.size(), sizeof(Announcement)), deadline)),
      barrier_(group, control_->part(0).subspan(device::align_up(slots * sizeof(Announcement)))),
      shared_address_space_(detect_shared_address_space(deadline)),
      signatures_(static_cast<std::size_t>(group.size())),
      data_(static_cast<std::size_t>(group.size())) {}

bool Exchange::detect_shared_address_space(device::Deadline deadline) {
  // The ranks are threads of one process exactly when a peer's part lies at the peer's own address.
  struct Identity {
    std::uint64_t process, address;
  };
  const auto identity_of = [&](int rank) -> Identity& {
    return *reinterpret_cast<Identity*>(control_->part(rank).data());
  };
  const auto address_of = [&](int rank) {
    return reinterpret_cast<std::uint64_t>(control_->part(rank).data());
  };
  const auto late = [](int rank) {
    return RankError(rank, fmt::format("rank {} did not come to set up the collectives", rank));
  };
  const auto process = static_cast<std::uint64_t>(getpid());
  identity_of(group_.rank()) = {process, address_of(group_.rank())};
  barrier_.arrive_and_wait(deadline, late);
  bool shared = true;
  for (int r = 0; r < group_.size(); ++r)
    shared = shared && identity_of(r).process == process && identity_of(r).address == address_of(r);
  barrier_.arrive_and_wait(deadline, late);
  return shared;
}

std::shared_ptr<SymmetricBuffer> Exchange::allocate(std::size_t bytes, device::Deadline deadline) {
  // Kept as long as the exchange: a peer may go on using memory that this rank has let go.
  buffers_.push_back(group_.allocate(bytes, deadline));
  return buffers_.back();
}

void Exchange::meet(const Collective& call, const void* memory, std::size_t bytes) {
  ++meetings_;
  announcement(group_.rank()) = {call.signature, locate(memory, bytes)};
  barrier_.arrive_and_wait(call.deadline, [&](int rank) {
    return RankError(
        rank, fmt::format("rank {} did not arrive at {} in time", rank, to_string(call.signature)));
  });
  addressable_ = true;
  for (int r = 0; r < group_.size(); ++r) {
    const auto index = static_cast<std::size_t>(r);
    signatures_[index] = announcement(r).signature;
    data_[index] = resolve(announcement(r).location, r);
    addressable_ = addressable_ && announcement(r).location.buffer != Location::nowhere;
  }
  check_agreement(signatures_);
}

void Exchange::synchronize(const Collective& call) {
  barrier_.arrive_and_wait(call.deadline, [&](int rank) {
    return RankError(
        rank, fmt::format("rank {} did not finish {} in time", rank, to_string(call.signature)));
  });
}

Exchange::Location Exchange::locate(const void* memory, std::size_t bytes) const {
  if (shared_address_space_)
    return {Location::plain_address, reinterpret_cast<std::uint64_t>(memory)};
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (!buffers_[b]->contains(memory, bytes)) continue;
    const auto* data = static_cast<const std::byte*>(memory);
    return {static_cast<std::int32_t>(b),
            static_cast<std::uint64_t>(data - buffers_[b]->local().data())};
  }
  return {};
}

std::byte* Exchange::resolve(const Location& location, int rank) const {
  if (location.buffer == Location::nowhere) return nullptr;
  if (location.buffer == Location::plain_address)
    return reinterpret_cast<std::byte*>(location.offset);
  return buffers_[static_cast<std::size_t>(location.buffer)]->part(rank).data() + location.offset;
}

Exchange::Announcement& Exchange::announcement(int rank) const {
  auto* first = reinterpret_cast<Announcement*>(control_->part(rank).data());
  return first[meetings_ % slots];
}

}  // namespace lockstep::comm::ring

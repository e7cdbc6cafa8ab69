#include "comm/ring/cpu/exchange.h"

#include <fmt/format.h>
#include <unistd.h>

#include <thread>

namespace lockstep::comm::ring {

namespace {

// A failing rank waits this long for its peers to leave its memory; they are at arithmetic, not
// waiting.
constexpr std::chrono::seconds longest_retreat{10};

}  // namespace

Exchange::Exchange(Group& group, device::Deadline deadline)
    : group_(group),
      control_memory_(group.allocate(sizeof(Control) + Barrier::bytes(group.size()), deadline)),
      barrier_(group, control_memory_->part(0).subspan(sizeof(Control))),
      shared_address_space_(detect_shared_address_space(deadline)),
      signatures_(static_cast<std::size_t>(group.size())),
      data_(static_cast<std::size_t>(group.size())) {}

// The ranks are threads of one process exactly when a peer's part lies at the peer's own address in
// the same process.
bool Exchange::detect_shared_address_space(device::Deadline deadline) {
  const auto identity = [&](int rank) {
    Announcement own;
    own.signature.sequence = static_cast<std::uint64_t>(getpid());
    own.location.offset = reinterpret_cast<std::uint64_t>(&control(rank));
    return own;
  };
  const auto missing = [](int rank) {
    return RankError(rank, fmt::format("rank {} did not come to set up the collectives", rank));
  };
  announcement(group_.rank()) = identity(group_.rank());
  barrier_.arrive_and_wait(deadline, missing);
  bool shared = true;
  for (int r = 0; r < group_.size(); ++r) {
    const Announcement expected = identity(r), &found = announcement(r);
    shared = shared && found.signature == expected.signature &&
             found.location.offset == expected.location.offset;
  }
  barrier_.arrive_and_wait(deadline, missing);
  return shared;
}

std::shared_ptr<SymmetricBuffer> Exchange::allocate(std::size_t bytes, device::Deadline deadline) {
  // Kept as long as the exchange: a peer may go on using memory that this rank has let go.
  buffers_.push_back(group_.allocate(bytes, deadline));
  return buffers_.back();
}

void Exchange::meet(const Collective& call) {
  ++meetings_;
  announcement(group_.rank()) = {call.signature, {}};
  arrive_and_wait(call, "arrive at");
  for (int r = 0; r < group_.size(); ++r)
    signatures_[static_cast<std::size_t>(r)] = announcement(r).signature;
  check_agreement(signatures_);
}

bool Exchange::meet_in_place(const Collective& call) {
  ++meetings_;
  announcement(group_.rank()) = {call.signature, locate(call.data)};
  if (shared_address_space_) control(group_.rank()).presence.store(Presence::inside);
  arrive_and_wait(call, "arrive at");
  bool addressable = true;
  try {
    for (int r = 0; r < group_.size(); ++r) {
      const auto index = static_cast<std::size_t>(r);
      signatures_[index] = announcement(r).signature;
      data_[index] = resolve(announcement(r).location, r);
      addressable = addressable && announcement(r).location.buffer != Location::nowhere;
      if (control(r).presence.load() == Presence::withdrawn)
        throw RankError(r, fmt::format("rank {} gave up {}", r, to_string(call.signature)));
    }
    check_agreement(signatures_);
  } catch (const RankError& error) {
    withdraw(error);
    throw;
  }
  return addressable;
}

void Exchange::synchronize(const Collective& call) {
  control(group_.rank()).presence.store(Presence::outside, std::memory_order_release);
  arrive_and_wait(call, "finish");
}

void Exchange::arrive_and_wait(const Collective& call, std::string_view verb) {
  try {
    barrier_.arrive_and_wait(call.deadline, [&](int rank) { return late(call, rank, verb); });
    // Who comes after the others gave up must not take their leavings for a result.
    group_.throw_if_aborted();
  } catch (const RankError& error) {
    withdraw(error);
    throw;
  }
}

void Exchange::withdraw(const RankError& error) {
  if (!shared_address_space_) return;
  group_.abort(error.rank(), error.what());  // peers that wait inside must leave too
  control(group_.rank()).presence.store(Presence::withdrawn);
  const auto deadline = device::Clock::now() + longest_retreat;
  for (int r = 0; r < group_.size(); ++r) {
    while (control(r).presence.load() == Presence::inside && device::Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Exchange::Location Exchange::locate(const Range& range) const {
  if (shared_address_space_)
    return {Location::plain_address, reinterpret_cast<std::uint64_t>(range.data)};
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (!buffers_[b]->contains(range.data, range.bytes())) continue;
    const auto* data = static_cast<const std::byte*>(range.data);
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

Exchange::Control& Exchange::control(int rank) const {
  return *reinterpret_cast<Control*>(control_memory_->part(rank).data());
}

}  // namespace lockstep::comm::ring

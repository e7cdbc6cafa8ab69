#include "comm/ring/cpu/exchange.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
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
      signatures_(static_cast<std::size_t>(group.size())),
      data_(static_cast<std::size_t>(group.size())) {
  introduce(deadline);
}

// The ranks are threads of one process exactly when a peer's part lies at the peer's own address in
// the same process. What cores there are for them is for all to say: each may be confined to its
// own.
void Exchange::introduce(device::Deadline deadline) {
  const auto missing = [](int rank) {
    return RankError(rank, fmt::format("rank {} did not come to set up the collectives", rank));
  };
  const auto process = static_cast<std::uint64_t>(getpid());
  const auto address = [&](int rank) { return reinterpret_cast<std::uint64_t>(&control(rank)); };
  Announcement& own = announcement(group_.rank());
  own.signature = {.sequence = process};
  own.location.offset = address(group_.rank());
  control(group_.rank()).cores = CoreMask::of_this_thread();
  barrier_.arrive_and_wait(deadline, missing);
  CoreMask cores;
  for (int r = 0; r < group_.size(); ++r) {
    const Announcement& other = announcement(r);
    if (other.signature.sequence != process || other.location.offset != address(r))
      shared_address_space_ = false;
    cores.add(control(r).cores);
  }
  crowded_ = cores.count() < group_.size();
  group_.set_wait_policy(WaitPolicy::for_ranks(group_.size(), cores.count()));
  barrier_.arrive_and_wait(deadline, missing);
}

std::shared_ptr<SymmetricBuffer> Exchange::allocate(std::size_t bytes, device::Deadline deadline) {
  // Kept as long as the exchange: a peer may go on using memory that this rank has let go.
  buffers_.push_back(group_.allocate(bytes, deadline));
  return buffers_.back();
}

void Exchange::meet(const Collective& call) {
  announce(call, {});
  arrive_and_wait(call, "arrive at");
  read_announcements();
  require_agreement();
}

bool Exchange::meet_in_place(const Collective& call) {
  announce(call, locate(call.data));
  // Nobody takes pieces of an earlier collective any more: this rank has been at its end.
  control(group_.rank()).taken.store(0, std::memory_order_relaxed);
  enter();
  arrive_and_wait(call, "arrive at");
  const bool addressable = read_announcements();
  require_agreement();  // first: a rank that has found others to disagree has given up
  if (!nobody_withdrew()) {
    const RankError error(-1, fmt::format("a rank gave up {}", to_string(call.signature)));
    withdraw(error);
    throw error;
  }
  return addressable;
}

void Exchange::synchronize(const Collective& call) {
  leave();
  ++rounds_;
  arrive_and_wait(call, "finish");
}

void Exchange::announce(const Collective& call, const Location& location) {
  ++rounds_;
  Announcement& own = announcement(group_.rank());
  own.signature = call.signature;
  own.location = location;
}

bool Exchange::read_announcements() {
  bool addressable = true;
  for (int r = 0; r < group_.size(); ++r) {
    const Announcement& other = announcement(r);
    signatures_[static_cast<std::size_t>(r)] = other.signature;
    data_[static_cast<std::size_t>(r)] = resolve(other.location, r);
    if (other.location.buffer == Location::nowhere) addressable = false;
  }
  return addressable;
}

bool Exchange::all_agree() const {
  return std::all_of(signatures_.begin(), signatures_.end(),
                     [&](const Signature& s) { return s == signatures_.front(); });
}

void Exchange::require_agreement() {
  try {
    check_agreement(signatures_);
  } catch (const RankError& error) {
    withdraw(error);
    throw;
  }
}

bool Exchange::is_last_to_come() {
  comers_expected_ += static_cast<std::uint32_t>(group_.size());
  return control(0).comers.fetch_add(1, std::memory_order_acq_rel) + 1 == comers_expected_;
}

void Exchange::arrive_and_wait(const Collective& call, std::string_view verb) {
  try {
    if (crowded_) {
      barrier_.arrive_and_wait(call.deadline, [&](int rank) { return late(call, rank, verb); });
    } else {
      wait_for_each(call, verb);
    }
    // Who comes after the others gave up must not take their leavings for a result.
    group_.throw_if_aborted();
  } catch (const RankError& error) {
    withdraw(error);
    throw;
  }
}

// With a core for each rank nobody sleeps for long, and the line that says that a rank has come is
// all that has to travel: half the way of a counter that each rank adds to and a release.
void Exchange::wait_for_each(const Collective& call, std::string_view verb) {
  post(announcement(group_.rank()).come, rounds_);
  for (int r = 0; r < group_.size(); ++r)
    group_.wait(
        announcement(r).come,
        [&](std::uint32_t round) { return static_cast<std::int32_t>(round - rounds_) >= 0; },
        call.deadline, [&] { return late(call, r, verb); });
}

void Exchange::enter() {
  if (shared_address_space_) control(group_.rank()).presence.store(Presence::inside);
}

void Exchange::leave() {
  if (shared_address_space_)
    control(group_.rank()).presence.store(Presence::outside, std::memory_order_release);
}

bool Exchange::nobody_withdrew() const {
  for (int r = 0; r < group_.size(); ++r)
    if (control(r).presence.load() == Presence::withdrawn) return false;
  return true;
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
  if (location.buffer == Location::plain_address) return std::bit_cast<std::byte*>(location.offset);
  return buffers_[static_cast<std::size_t>(location.buffer)]->part(rank).data() + location.offset;
}

Exchange::Control& Exchange::control(int rank) const {
  return *reinterpret_cast<Control*>(control_memory_->part(rank).data());
}

}  // namespace lockstep::comm::ring

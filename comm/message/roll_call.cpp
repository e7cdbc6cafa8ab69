#include "comm/message/roll_call.h"

#include <fmt/format.h>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

// Ranks notice the end of a call's time at slightly different moments.
constexpr milliseconds patience_for_answers{700};
constexpr milliseconds between_looks{100};

}  // namespace

std::string RollCall::counter(int rank) const {
  return fmt::format("{}/answered/{}", prefix_, rank);
}

void RollCall::answer(std::uint64_t sequence) noexcept try {
  const std::lock_guard lock(mutex_);
  const std::int64_t calls = static_cast<std::int64_t>(sequence) + 1;
  if (calls <= answered_) return;
  store_.add(counter(rank_), calls - answered_);
  answered_ = calls;
} catch (const std::exception&) {
  // The store is gone, and with it whoever could ask.
}

std::vector<int> RollCall::missing(std::uint64_t sequence, milliseconds patience) try {
  const auto deadline = device::Clock::now() + patience;
  while (true) {
    std::vector<int> ranks;
    auto least = static_cast<std::int64_t>(sequence);
    for (int r = 0; r < size_; ++r) {
      const std::int64_t calls = store_.add(counter(r), 0);
      if (calls > least) continue;
      if (calls < least) ranks.clear();
      least = calls;
      ranks.push_back(r);
    }
    if (ranks.empty() || device::Clock::now() >= deadline) return ranks;
    std::this_thread::sleep_for(milliseconds(10));
  }
} catch (const Error&) {
  return {};
}

RankError overdue(RollCall& roll_call, const Collective& call, int named, std::string_view verb) {
  if (named >= 0) return late(call, named, verb);
  const std::uint64_t sequence = call.signature.sequence;
  roll_call.answer(sequence);
  const std::vector<int> missing = roll_call.missing(sequence, patience_for_answers);
  if (!missing.empty()) return late(call, missing.front(), verb);
  return RankError(
      -1,
      fmt::format("all ranks wait in {} for longer than {:g} s: connections between "
                  "them are cut",
                  to_string(call.signature), std::chrono::duration<double>(call.timeout).count()));
}

StuckWatch::StuckWatch(RollCall& roll_call, OnStuck on_stuck)
    : roll_call_(roll_call), on_stuck_(std::move(on_stuck)), thread_([this] { watch(); }) {}

StuckWatch::~StuckWatch() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  leave_.notify_all();
  thread_.join();
}

// Looks now and then rather than being woken, so that calls cost next to nothing.
void StuckWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!leave_.wait_for(lock, between_looks, [this] { return leaving_; })) {
    if (!call_) continue;
    const Collective call = *call_;
    const auto now = device::Clock::now();
    // Ranks may have come at different times: each answers well before it asks.
    if (now < call.deadline - call.timeout / 2) continue;
    lock.unlock();
    roll_call_.answer(call.signature.sequence);
    std::optional<RankError> error;
    if (now >= call.deadline) error = overdue(roll_call_, call, -1, "finish");
    lock.lock();
    if (!error || !call_ || call_->signature.sequence != call.signature.sequence) continue;
    lock.unlock();
    on_stuck_(*error);
    return;
  }
}

}  // namespace lockstep::comm

#include "comm/memory/barrier.h"

namespace lockstep::comm {

std::size_t Barrier::bytes(int ranks) {
  return sizeof(State) + static_cast<std::size_t>(ranks) * sizeof(Arrival);
}

Barrier::Barrier(const Group& group, std::span<std::byte> memory)
    : group_(group),
      state_(reinterpret_cast<State*>(memory.data())),
      arrivals_(reinterpret_cast<Arrival*>(memory.data() + sizeof(State))) {
  if (memory.size() < bytes(group.size()))
    throw UsageError("a barrier of " + std::to_string(group.size()) + " ranks needs " +
                     std::to_string(bytes(group.size())) + " bytes, got " +
                     std::to_string(memory.size()));
}

bool Barrier::arrive() {
  ++round_;
  const auto size = static_cast<std::uint32_t>(group_.size());
  // The counter is never set back; it wraps as round_ * size does.
  const bool last = state_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == round_ * size;
  if (last) post(state_->released, round_);
  // Written last: as long as the barrier is not released, a rank is missing here too, even if one
  // was killed on the way.
  arrivals_[group_.rank()].round.store(round_, std::memory_order_release);
  return last;
}

int Barrier::first_missing() const {
  for (int rank = 0; rank < group_.size(); ++rank) {
    const std::uint32_t round = arrivals_[rank].round.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(round - round_) < 0) return rank;
  }
  return -1;
}

}  // namespace lockstep::comm

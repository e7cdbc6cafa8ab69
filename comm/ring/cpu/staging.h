// Staging: group memory through which data travels that peers cannot address, and small messages of
// any memory, because a message copied out of the way needs no round to say that all have read it.
//
// Each rank has two halves, used in turn. Every use is followed by at least one round of all ranks
// before the next, so that whoever writes to a half knows that its readers, two uses ago, are done.
#pragma once

#include <cstring>
#include <span>

#include "comm/memory/symmetric_buffer.h"
#include "framework/device/allocator.h"

namespace lockstep::comm::ring {

class Staging {
 public:
  // Of one half of each rank.
  static constexpr std::size_t capacity = std::size_t{1} << 20;
  static constexpr std::size_t bytes() { return 2 * capacity; }

  explicit Staging(std::shared_ptr<SymmetricBuffer> memory) : memory_(std::move(memory)) {
    parts_.resize(static_cast<std::size_t>(memory_->size()));
    turn();
  }

  // Goes on to the other half.
  void turn() {
    half_ = 1 - half_;
    for (std::size_t r = 0; r < parts_.size(); ++r)
      parts_[r] = memory_->part(static_cast<int>(r)).data() + half_ * capacity;
  }
  std::byte* local() const { return memory_->local().data() + half_ * capacity; }
  std::byte* part(int rank) const { return parts_[static_cast<std::size_t>(rank)]; }
  std::span<std::byte* const> parts() const { return parts_; }

 private:
  std::shared_ptr<SymmetricBuffer> memory_;
  std::vector<std::byte*> parts_;
  std::size_t half_ = 1;
};

}  // namespace lockstep::comm::ring

#include "comm/memory/control.h"

#include "comm/memory/barrier.h"
#include "framework/base/error.h"
#include "framework/device/allocator.h"

namespace lockstep::comm {

// In memory: the block, the barrier, a cause for each rank, two sets of a note for each rank.
struct alignas(64) Control::Block {
  // 0: not aborted; r + 1: the cause of rank r came first. Set once, by compare and exchange.
  std::atomic<std::uint32_t> first_cause;
};

// Written by its own rank alone, before that rank offers it as the first.
struct alignas(64) Control::Cause {
  std::int32_t guilty;
  SharedText<2040> text;
};

namespace {

std::size_t aligned_barrier_bytes(int ranks) {
  return device::align_up(Barrier::bytes(ranks), alignof(Note));
}

}  // namespace

std::size_t Control::bytes(int ranks) {
  return sizeof(Block) + aligned_barrier_bytes(ranks) +
         static_cast<std::size_t>(ranks) * (sizeof(Cause) + 2 * sizeof(Note));
}

Control::Control(MappedMemory memory, int ranks, std::shared_ptr<const Control> parent)
    : memory_(std::move(memory)), ranks_(ranks), parent_(std::move(parent)) {}

Control::Block& Control::block() const {
  return *reinterpret_cast<Block*>(memory_.bytes().data());
}

std::span<std::byte> Control::barrier_memory() const {
  return memory_.bytes().subspan(sizeof(Block), Barrier::bytes(ranks_));
}

Control::Cause& Control::cause(int rank) const {
  std::byte* causes = memory_.bytes().data() + sizeof(Block) + aligned_barrier_bytes(ranks_);
  return reinterpret_cast<Cause*>(causes)[rank];
}

Note& Control::note(int set, int rank) const {
  return reinterpret_cast<Note*>(&cause(ranks_))[set * ranks_ + rank];
}

bool Control::aborted() const {
  return block().first_cause.load(std::memory_order_acquire) != 0 ||
         (parent_ && parent_->aborted());
}

void Control::throw_if_aborted() const {
  const std::uint32_t first = block().first_cause.load(std::memory_order_acquire);
  if (first != 0) {
    const Cause& why = cause(static_cast<int>(first) - 1);
    throw RankError(why.guilty, std::string(why.text.view()));
  }
  if (parent_) parent_->throw_if_aborted();
}

void Control::offer_cause(int from, int guilty, std::string_view text) {
  Cause& mine = cause(from);
  mine.guilty = guilty;
  mine.text.assign(text);
  std::uint32_t none = 0;
  block().first_cause.compare_exchange_strong(none, static_cast<std::uint32_t>(from) + 1,
                                              std::memory_order_release, std::memory_order_relaxed);
}

}  // namespace lockstep::comm

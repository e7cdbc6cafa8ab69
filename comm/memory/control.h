// Control: what the ranks of a group share besides their data: the first cause of an abort, a
// barrier, and the notes with which they agree about an allocation or a split.
//
// The state lies in zeroed group memory and holds no lock: a rank that is killed at any instruction
// leaves it usable for the others.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "comm/memory/mapped_memory.h"

namespace lockstep::comm {

// Text of bounded length in shared memory; longer text is cut.
template <std::size_t capacity>
struct SharedText {
  std::uint32_t length = 0;
  std::array<char, capacity> characters;

  void assign(std::string_view text) {
    length = static_cast<std::uint32_t>(text.copy(characters.data(), capacity));
  }
  std::string_view view() const { return {characters.data(), length}; }
};

// What a rank tells all others in one round of agreement.
struct alignas(64) Note {
  enum class Kind : std::uint32_t { none, allocate, reserve, split, address };
  Kind kind = Kind::none;
  std::int32_t key = 0;
  std::int64_t number = 0;
  SharedText<996> text;
};

// One object in each process; the threads of a process share it. Thread-safe where nothing else is
// said.
class Control {
 public:
  static std::size_t bytes(int ranks);

  // `memory`: bytes(ranks) of it, zero at first, the same for all ranks. An abort of `parent`
  // counts as one of this group.
  Control(MappedMemory memory, int ranks, std::shared_ptr<const Control> parent = nullptr);

  bool aborted() const;
  // Throws RankError with the first cause.
  void throw_if_aborted() const;
  // Rank `from` says why the group ends and that `guilty` is at fault; without effect unless it is
  // the first. Called at most once for each `from`.
  void offer_cause(int from, int guilty, std::string_view text);

  std::span<std::byte> barrier_memory() const;
  // Rank `rank`'s note in one of two sets, which are used in turn, each between two barriers.
  Note& note(int set, int rank) const;

 private:
  struct Block;
  struct Cause;
  Block& block() const;
  Cause& cause(int rank) const;

  MappedMemory memory_;
  int ranks_;
  std::shared_ptr<const Control> parent_;
};

}  // namespace lockstep::comm

#include "train/launch/scoreboard.h"

namespace lockstep::train {

std::size_t Scoreboard::bytes(int ranks) {
  return sizeof(Header) + static_cast<std::size_t>(ranks) * sizeof(Slot);
}

Scoreboard Scoreboard::make_private(int ranks) {
  return {comm::MappedMemory::make_private(bytes(ranks)), ranks};
}

Scoreboard Scoreboard::make_shared(int ranks) {
  Scoreboard board(comm::MappedMemory::make_shared(bytes(ranks)), ranks);
  board.memory_.reserve(0, bytes(ranks));
  return board;
}

Scoreboard Scoreboard::map_shared(comm::Descriptor file, int ranks) {
  return {comm::MappedMemory::map_shared(std::move(file), bytes(ranks)), ranks};
}

// The memory is zeroed, which is the initial state of every word.
Scoreboard::Header& Scoreboard::header() const {
  return *reinterpret_cast<Header*>(memory_.bytes().data());
}

Scoreboard::Slot& Scoreboard::slot(int rank) const {
  std::byte* const slots = memory_.bytes().data() + sizeof(Header);
  return reinterpret_cast<Slot*>(slots)[rank];
}

}  // namespace lockstep::train

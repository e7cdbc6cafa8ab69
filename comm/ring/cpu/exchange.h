// Exchange: how the ranks of a group meet for a collective. Each announces what it was asked to do
// and where its data lies, all wait for each other, and each compares what the others said.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/host_communicator.h"
#include "comm/memory/barrier.h"
#include "comm/memory/group.h"

namespace lockstep::comm::ring {

class Exchange {
 public:
  // Collective.
  Exchange(Group& group, device::Deadline deadline);

  // Memory of all ranks where data can lie so that peers address it. Collective.
  std::shared_ptr<SymmetricBuffer> allocate(std::size_t bytes, device::Deadline deadline);

  // One round: announces `call` with data at `memory` (may be null), waits until every rank has
  // come, and throws the same RankError on every rank when they disagree.
  void meet(const Collective& call, const void* memory, std::size_t bytes);
  // One round more of the same collective: no rank returns before all have come.
  void synchronize(const Collective& call);

  // Valid after meet(), until the next. Whether every rank's memory can be addressed from every
  // rank.
  bool addressable() const { return addressable_; }
  // The memory that rank r announced, as seen from here.
  std::byte* data(int r) const { return data_[static_cast<std::size_t>(r)]; }
  std::span<std::byte* const> all_data() const { return data_; }

 private:
  // Where memory lies: in a buffer that all ranks allocated, or (threads of one process) anywhere.
  struct Location {
    static constexpr std::int32_t nowhere = -1, plain_address = -2;
    std::int32_t buffer = nowhere;
    std::uint64_t offset = 0;  // or the address
  };
  struct alignas(64) Announcement {
    Signature signature;
    Location location;
  };

  bool detect_shared_address_space(device::Deadline deadline);
  Location locate(const void* memory, std::size_t bytes) const;
  std::byte* resolve(const Location& location, int rank) const;
  // Two slots are used in turn: a rank that is one collective ahead must not overwrite what another
  // still reads.
  Announcement& announcement(int rank) const;

  Group& group_;
  std::shared_ptr<SymmetricBuffer> control_;
  Barrier barrier_;
  bool shared_address_space_;
  std::uint64_t meetings_ = 0;
  std::vector<std::shared_ptr<SymmetricBuffer>> buffers_;

  std::vector<Signature> signatures_;
  std::vector<std::byte*> data_;
  bool addressable_ = false;
};

}  // namespace lockstep::comm::ring

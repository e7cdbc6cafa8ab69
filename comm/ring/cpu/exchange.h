// Exchange: how the ranks of a group meet for a collective. Each announces what it was asked to do
// and where its data lies, all wait for each other, and each compares what the others said.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "comm/host_communicator.h"
#include "comm/memory/barrier.h"
#include "comm/memory/core_mask.h"
#include "comm/memory/group.h"

namespace lockstep::comm::ring {

class Exchange {
 public:
  // Collective.
  Exchange(Group& group, device::Deadline deadline);

  // Memory of all ranks where data can lie so that peers address it. Collective.
  std::shared_ptr<SymmetricBuffer> allocate(std::size_t bytes, device::Deadline deadline);

  // One round: announces `call`, waits until every rank has come, and throws the same RankError on
  // every rank when they disagree.
  void meet(const Collective& call);
  // The same, and tells the peers where call.data lies. Returns whether every rank's data can be
  // addressed from every rank; if so the ranks may use data() until they call synchronize().
  bool meet_in_place(const Collective& call);
  // One round more of the same collective: no rank returns before all have come.
  void synchronize(const Collective& call);
  // Both in one round: if all ranks agree and all data can be addressed, the last one to come calls
  // work() for all of them while the others still wait, and this returns true, the collective being
  // done. Where waking a rank takes longer than its share of the work would.
  template <class Work>
  bool meet_and_let_one_work(const Collective& call, Work&& work) {
    announce(call, locate(call.data));
    if (is_last_to_come()) {
      enter();
      if (read_announcements() && all_agree() && nobody_withdrew()) work();
      leave();
    }
    arrive_and_wait(call, "arrive at");
    const bool addressable = read_announcements();
    require_agreement();
    return addressable;
  }

  // Takes a piece of the work that is shared after meet_in_place(), each piece going to one rank:
  // its number within `owner`'s share, from 0 on.
  std::uint32_t take_piece(int owner) {
    return control(owner).taken.fetch_add(1, std::memory_order_relaxed);
  }

  // Whether peers can address this rank's `range`.
  bool can_address(const Range& range) const { return locate(range).buffer != Location::nowhere; }

  // Whether there are more ranks than cores that they may use, all together; the same on every
  // rank.
  bool is_crowded() const { return crowded_; }

  // The data of rank r, and of all, as seen from here.
  std::byte* data(int r) const { return data_[static_cast<std::size_t>(r)]; }
  std::span<std::byte* const> all_data() const { return data_; }

 private:
  // Where memory lies: in a buffer that all ranks allocated, or (threads of one process) anywhere.
  struct Location {
    static constexpr std::int32_t nowhere = -1, plain_address = -2;
    std::int32_t buffer = nowhere;
    std::uint64_t offset = 0;  // or the address
  };
  // One cache line, so that a peer that waits for a rank gets with the news what there is to know.
  struct alignas(64) Announcement {
    Signature signature;
    Location location;
    Signal come;  // the number of the round
  };
  static_assert(sizeof(Announcement) == 64);
  // Threads of one process may free their memory when a collective fails. Then no peer may still be
  // in it: a rank that fails declares that it has withdrawn and waits until nobody is inside; a
  // rank that goes inside looks afterwards whether somebody has withdrawn. (Both sequentially
  // consistent: one of the two sees the other.)
  enum class Presence : std::uint32_t { outside, inside, withdrawn };
  // A rank's part of the control memory. Two announcements are used in turn: a rank that is one
  // round ahead must not overwrite what another still reads. The barrier lies behind rank 0's.
  struct alignas(64) Control {
    Announcement announcements[2];
    CoreMask cores;  // that the rank may use
    std::atomic<Presence> presence;
    std::atomic<std::uint32_t> taken;   // pieces of this rank's share of the work
    std::atomic<std::uint32_t> comers;  // rank 0's: of all meetings that one rank works in, wraps
  };

  void introduce(device::Deadline deadline);
  Location locate(const Range& range) const;
  std::byte* resolve(const Location& location, int rank) const;
  void announce(const Collective& call, const Location& location);
  bool read_announcements();  // true when all data can be addressed
  bool all_agree() const;
  void require_agreement();
  bool is_last_to_come();
  void arrive_and_wait(const Collective& call, std::string_view verb);
  void wait_for_each(const Collective& call, std::string_view verb);

  void enter();
  void leave();
  bool nobody_withdrew() const;
  // The rank leaves a collective that has failed.
  void withdraw(const RankError& error);
  Control& control(int rank) const;
  Announcement& announcement(int rank) const { return control(rank).announcements[rounds_ % 2]; }

  Group& group_;
  std::shared_ptr<SymmetricBuffer> control_memory_;
  Barrier barrier_;
  bool shared_address_space_ = true;
  bool crowded_ = false;
  std::uint32_t rounds_ = 0;
  std::uint32_t comers_expected_ = 0;
  std::vector<std::shared_ptr<SymmetricBuffer>> buffers_;

  std::vector<Signature> signatures_;
  std::vector<std::byte*> data_;
};

}  // namespace lockstep::comm::ring

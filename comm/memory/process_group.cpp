// Ranks that are processes. They find each other through the store; rank 0 keeps a socket to each
// other rank, over which it passes memory on.
#include <fmt/core.h>
#include <fmt/format.h>

#include <optional>

#include "comm/memory/control.h"
#include "comm/memory/group.h"
#include "comm/memory/mapped_memory.h"
#include "comm/memory/peer_socket.h"

namespace lockstep::comm {
namespace {

// Rank 0: the sockets to all ranks, by rank, its own empty. The others: the one to rank 0.
using PeerSockets = std::vector<Descriptor>;

// Rank 0 passes `made` on; each rank gets the memory. RankError naming a rank that is gone.
MappedMemory share(const PeerSockets& peers, std::optional<MappedMemory> made, std::size_t bytes,
                   device::Deadline deadline, const StillWanted& still_wanted) {
  if (made) {
    for (std::size_t peer = 1; peer < peers.size(); ++peer)
      send_descriptor(peers[peer], made->descriptor(), static_cast<int>(peer));
    return *std::move(made);
  }
  Descriptor memory = receive_descriptor(peers.front(), deadline, still_wanted);
  if (!memory) throw RankError(0, "rank 0 did not pass on the group's memory");
  return MappedMemory::map_shared(std::move(memory), bytes);
}

std::shared_ptr<Control> make_control(const PeerSockets& peers, int rank, int size,
                                      device::Deadline deadline, const StillWanted& still_wanted,
                                      std::shared_ptr<const Control> parent) {
  const std::size_t bytes = Control::bytes(size);
  std::optional<MappedMemory> made;
  if (rank == 0) {
    made.emplace(MappedMemory::make_shared(bytes));
    made->reserve(0, bytes);
  }
  MappedMemory memory = share(peers, std::move(made), bytes, deadline, still_wanted);
  memory.close_descriptor();
  return std::make_shared<Control>(std::move(memory), size, std::move(parent));
}

std::vector<int> missing_in(const PeerSockets& peers) {
  std::vector<int> missing;
  for (std::size_t peer = 1; peer < peers.size(); ++peer)
    if (!peers[peer]) missing.push_back(static_cast<int>(peer));
  return missing;
}

// "rank 3", "ranks 3, 5".
std::string name_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

class ProcessGroup final : public Group {
 public:
  ProcessGroup(int rank, int size, std::shared_ptr<Control> shared_control, PeerSockets peers)
      : Group(rank, size, std::move(shared_control)), peers_(std::move(peers)) {}

 private:
  std::shared_ptr<MappedMemory> make_memory(std::size_t bytes) override {
    return std::make_shared<MappedMemory>(MappedMemory::make_shared(bytes));
  }

  std::shared_ptr<MappedMemory> share_memory(std::shared_ptr<MappedMemory> made, std::size_t bytes,
                                             device::Deadline deadline) override {
    std::optional<MappedMemory> given;
    if (made) given.emplace(std::move(*made));
    return std::make_shared<MappedMemory>(
        share(peers_, std::move(given), bytes, deadline, [this] { throw_if_aborted(); }));
  }

  std::string prepare_split(int) override { return listener_.emplace().address(); }

  std::unique_ptr<Group> join_split(const std::vector<int>& members, int new_rank,
                                    const std::string& address,
                                    device::Deadline deadline) override {
    const int size = static_cast<int>(members.size());
    const StillWanted still_wanted = [this] { throw_if_aborted(); };
    PeerSockets peers;
    if (new_rank == 0) {
      peers = listener_->accept(size, deadline, still_wanted);
      listener_.reset();
      std::vector<int> missing;
      for (const int peer : missing_in(peers))
        missing.push_back(members[static_cast<std::size_t>(peer)]);
      if (!missing.empty())
        throw RankError(missing.front(), fmt::format("{} did not join a split of the group in time",
                                                     name_ranks(missing)));
    } else {
      peers.push_back(connect_peer(address, new_rank));
      if (!peers.front()) throw left_split(members.front());
    }
    try {
      auto new_control = make_control(peers, new_rank, size, deadline, still_wanted, control());
      return std::make_unique<ProcessGroup>(new_rank, size, std::move(new_control),
                                            std::move(peers));
    } catch (const RankError& error) {
      throw_if_aborted();
      throw left_split(members[static_cast<std::size_t>(error.rank())]);
    }
  }

  static RankError left_split(int rank) {
    return RankError(rank, fmt::format("rank {} left a split of the group", rank));
  }

  PeerSockets peers_;
  std::optional<PeerListener> listener_;  // while this rank leads a split
};

// The start of a group: who is there, and where rank 0 listens.
class Rendezvous {
 public:
  Rendezvous(Store& store, const std::string& prefix, int rank, int size,
             std::chrono::milliseconds timeout)
      : store_(store), prefix_(prefix), rank_(rank), size_(size), timeout_(timeout) {}

  std::unique_ptr<Group> run() {
    PeerSockets peers;
    if (size_ > 1) {
      store_.set(presence_key(rank_), "");
      peers = rank_ == 0 ? lead() : follow();
    }
    std::shared_ptr<Control> control;
    try {
      control = make_control(
          peers, rank_, size_, deadline_, [] {}, nullptr);
    } catch (const RankError& error) {
      if (rank_ == 0) throw StartupError(error.what());
      throw incomplete();
    }
    return std::make_unique<ProcessGroup>(rank_, size_, std::move(control), std::move(peers));
  }

 private:
  PeerSockets lead() {
    const PeerListener listener;
    store_.set(address_key(), listener.address());
    PeerSockets peers = listener.accept(size_, deadline_, [] {});
    if (const std::vector<int> missing = missing_in(peers); !missing.empty()) throw late(missing);
    return peers;
  }

  PeerSockets follow() {
    std::string address;
    try {
      address = store_.get(address_key(), timeout_);
    } catch (const StartupError&) {
      throw incomplete();
    }
    PeerSockets peers;
    peers.push_back(connect_peer(address, rank_));
    if (!peers.front()) throw incomplete();
    return peers;
  }

  // Why a rank other than 0 cannot go on: the ranks that never came, where there are such.
  StartupError incomplete() const {
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank) keys.push_back(presence_key(rank));
    const std::vector<bool> present = store_.has(keys);
    std::vector<int> missing;
    for (int rank = 0; rank < size_; ++rank)
      if (!present[static_cast<std::size_t>(rank)]) missing.push_back(rank);
    if (!missing.empty()) return late(missing);
    return StartupError("rank 0 gave up before all ranks had joined");
  }

  StartupError late(const std::vector<int>& missing) const {
    return StartupError(fmt::format("{} of {} did not come within {:.1f} s", name_ranks(missing),
                                    size_, std::chrono::duration<double>(timeout_).count()));
  }

  std::string presence_key(int rank) const { return fmt::format("{}/present/{}", prefix_, rank); }
  std::string address_key() const { return prefix_ + "/address"; }

  Store& store_;
  const std::string& prefix_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  device::Deadline deadline_ = device::Clock::now() + timeout_;
};

}  // namespace

std::unique_ptr<Group> make_process_group(Store& store, const std::string& prefix, int rank,
                                          int size, std::chrono::milliseconds start_timeout) {
  return Rendezvous(store, prefix, rank, size, start_timeout).run();
}

}  // namespace lockstep::comm

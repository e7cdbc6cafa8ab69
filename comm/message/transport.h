// Transport: what a library that passes messages between ranks (Gloo, MPI) has to offer to become a
// backend. MessageCommunicator makes a Communicator of it.
//
// A transport moves and reduces data that has been checked already: the ranks agree about each call
// unless comm.check is off. All calls are blocking and come from one thread at a time; end_waits()
// may come from any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "comm/host_communicator.h"
#include "comm/store/store.h"

namespace lockstep::comm {

// What a transport throws when it cannot go on. `rank`: the one at fault, -1 where it is not known.
class TransportError : public Error {
 public:
  enum class Kind {
    lost,  // a connection is gone, which whoever watches over the ranks may explain soon
    late,  // the deadline passed
  };
  TransportError(Kind kind, int rank, const std::string& message)
      : Error(message), kind_(kind), rank_(rank) {}
  Kind kind() const { return kind_; }
  int rank() const { return rank_; }

 private:
  Kind kind_;
  int rank_;
};

// Sees to it that a rank that waits for long learns of a failure elsewhere: called every 50 ms at
// most while a transport polls, throws when the wait has become pointless.
using LookAround = std::function<void()>;

// Of an all-reduce between CPUs, rounded from benchmarks/README.md: over MPI, and over Gloo.
inline constexpr CostModel message_cost{.latency = 100e-6, .bytes_per_second = 7e8};
inline constexpr CostModel gloo_cost{.latency = 5e-3, .bytes_per_second = 6e8};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view backend() const = 0;

  // All ranks tell each other by_rank[rank()]. A meeting too: returns when all ranks have come. A
  // rank that does not come before the deadline is named: TransportError, late.
  virtual void exchange(std::span<Signature> by_rank, device::Deadline deadline,
                        const LookAround& look_around) = 0;

  // In place, as in Communicator. `data` is not empty and of a type that needs no accumulator of
  // another; `op` is not avg.
  virtual void all_reduce(const Range& data, ReduceOp op, device::Deadline deadline) = 0;
  virtual void reduce(const Range& data, ReduceOp op, int root, device::Deadline deadline) = 0;
  virtual void reduce_scatter(const Range& data, ReduceOp op, device::Deadline deadline) = 0;

  // As in Communicator; `data` is not empty and of any type.
  virtual void all_gather(const Range& data, device::Deadline deadline) = 0;
  virtual void broadcast(const Range& data, int root, device::Deadline deadline) = 0;
  virtual void all_to_all(const Range& send, const Range& receive, device::Deadline deadline) = 0;

  // Collective over `members`, in the order of the new ranks, this one among them; the other ranks
  // of the group call with no members and get nullptr. `prefix` is used once in the store.
  virtual std::unique_ptr<Transport> split(std::span<const int> members, Store& store,
                                           const std::string& prefix,
                                           device::Deadline deadline) = 0;

  // As in Communicator; a transport that reads data in place wants it in such memory.
  virtual bool wants_addressable_memory() const { return false; }
  virtual std::shared_ptr<SymmetricBuffer> addressable_memory(std::size_t) { return nullptr; }

  virtual CostModel cost() const { return message_cost; }

  // Whether end_waits() ends a collective in progress; exchange() always ends.
  virtual bool can_end_waits() const { return true; }
  // Ends the calls in progress of this rank, as far as the library can, and those to come.
  virtual void end_waits() noexcept = 0;
};

}  // namespace lockstep::comm

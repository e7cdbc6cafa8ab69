// HostCommunicator: what backends that communicate from a host thread have in common. It checks
// arguments, runs each collective in the order of the calls (on an inline stream on the calling
// thread, otherwise on the stream's), times it, catches what it fails with, and is broken
// afterwards. A backend implements the blocking do_...() calls.
#pragma once

#include <optional>

#include "comm/communicator.h"
#include "comm/signature.h"

namespace lockstep::comm {

// One call of a collective, as a backend gets it: checked, and of more than one rank.
struct Collective {
  Signature signature;
  Range data;     // of all_to_all: what is sent
  Range receive;  // of all_to_all only
  std::chrono::milliseconds timeout{0};
  device::Deadline deadline;
};

// "rank 1 did not arrive at all_reduce number 0 (bucket 0, 1000 float32, sum) within 3 s"; `verb`
// is "arrive at" or "finish". For rank -1, which came as the deadline passed, of some rank.
RankError late(const Collective& call, int rank, std::string_view verb);

// A call with these arguments, without number and deadline yet. Throws UsageError, naming the
// collective, for arguments that no backend takes or this one does not offer.
Collective make_call(const Communicator& communicator, CollectiveKind kind, Range data, Tag tag,
                     ReduceOp op = ReduceOp::sum, int root = -1, Range receive = {});

class HostCommunicator : public Communicator {
 public:
  Work all_reduce(Range data, ReduceOp op, Stream& stream, Tag tag) final;
  Work reduce(Range data, ReduceOp op, int root, Stream& stream, Tag tag) final;
  Work reduce_scatter(Range data, ReduceOp op, Stream& stream, Tag tag) final;
  Work all_gather(Range data, Stream& stream, Tag tag) final;
  Work broadcast(Range data, int root, Stream& stream, Tag tag) final;
  Work all_to_all(Range send, Range receive, Stream& stream, Tag tag) final;
  Work barrier(Stream& stream) final;
  std::unique_ptr<Communicator> split(int color, int key) final;

 protected:
  explicit HostCommunicator(const CommunicatorOptions& options) : options_(options) {}

  const CommunicatorOptions& options() const { return options_; }

  // Blocking, called in the same order on every rank and never again after one has thrown. Counts
  // of zero do come here, so that ranks can disagree about them.
  virtual void do_all_reduce(const Collective& call) = 0;
  virtual void do_reduce(const Collective& call) = 0;
  virtual void do_reduce_scatter(const Collective& call) = 0;
  virtual void do_all_gather(const Collective& call) = 0;
  virtual void do_broadcast(const Collective& call) = 0;
  virtual void do_all_to_all(const Collective& call) = 0;
  virtual void do_barrier(const Collective& call) = 0;
  virtual std::unique_ptr<Communicator> do_split(const Collective& call, int color, int key) = 0;

 private:
  struct Failure {
    int rank;
    std::string message;
  };
  class HostWork;

  Work submit(CollectiveKind kind, Range data, Stream& stream, Tag tag, ReduceOp op = ReduceOp::sum,
              int root = -1, Range receive = {});
  void start_clock(Collective& call, device::Clock::time_point now) const;
  Work::Times run(Collective& call);
  void dispatch(const Collective& call);
  // Calls `body`, once the communicator is whole; remembers what it throws.
  template <class Body>
  void guarded(const Collective& call, Body&& body);

  CommunicatorOptions options_;
  std::uint64_t next_sequence_ = 0;
  // Read and written where collectives run, one at a time.
  std::optional<Failure> failure_;
};

}  // namespace lockstep::comm

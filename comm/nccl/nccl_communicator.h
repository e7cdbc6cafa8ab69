// NcclCommunicator: collectives of NCCL on CUDA streams.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include "comm/host_communicator.h"
#include "comm/message/first_cause.h"
#include "comm/nccl/nccl.h"
#include "comm/nccl/nccl_comm.h"
#include "comm/nccl/nccl_work.h"
#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::comm {

class NcclCommunicator final : public Communicator {
 public:
  // Collective.
  NcclCommunicator(std::shared_ptr<const NcclLibrary> library, Store& store, const NcclPlace& place,
                   const CommunicatorOptions& options, std::shared_ptr<FirstCause> cause);
  ~NcclCommunicator() override;

  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }
  std::string_view backend() const override { return "nccl"; }
  const Capabilities& capabilities() const override;

  Work all_reduce(Range data, ReduceOp op, Stream& stream, Tag tag) override;
  Work reduce(Range data, ReduceOp op, int root, Stream& stream, Tag tag) override;
  Work reduce_scatter(Range data, ReduceOp op, Stream& stream, Tag tag) override;
  Work all_gather(Range data, Stream& stream, Tag tag) override;
  Work broadcast(Range data, int root, Stream& stream, Tag tag) override;
  Work all_to_all(Range send, Range receive, Stream& stream, Tag tag) override;
  Work barrier(Stream& stream) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::shared_ptr<SymmetricBuffer> addressable_memory(std::size_t) override { return nullptr; }
  Work mark(Stream& stream) override;  // from the first collective on
  void abort(int rank, const std::string& cause) override;

  // Called, on any thread, each time before collectives in progress are ended: what NCCL leaves in
  // memory then, here and at other ranks, is anything. Must not call this object.
  void before_abort(std::function<void(const RankError&)> called);

 private:
  struct Pending {
    std::shared_ptr<const NcclWork> work;
    Collective call;
  };

  Collective next_call(CollectiveKind kind, Range data, Tag tag, ReduceOp op = ReduceOp::sum,
                       int root = -1, Range receive = {});
  // Enqueues `collective`(NCCL, its communicator, the stream) -> ncclResult_t.
  template <class Enqueue>
  Work submit(Collective call, Stream& stream, const char* name, Enqueue&& enqueue);
  // The ranks compare a call that they have not made before, through the store.
  void agree(const Collective& call);
  std::string exchange(const std::string& what, int from, const Collective& call);
  // The thread that sees deadlines, lost peers and failures elsewhere.
  void watch();
  void look_at_pending(std::unique_lock<std::mutex>& lock);
  void stop(const RankError& error);
  void fail(const RankError& error);

  NcclPlace place_;
  CommunicatorOptions options_;
  Store& store_;
  std::shared_ptr<FirstCause> cause_;
  std::shared_ptr<const NcclLibrary> library_;
  NcclComm comm_;
  std::shared_ptr<void> barrier_word_;
  std::shared_ptr<NcclFailure> failure_ = std::make_shared<NcclFailure>();
  std::shared_ptr<const TimeOrigin> origin_;
  std::uint64_t next_sequence_ = 0;
  std::unordered_set<std::uint64_t> checked_;

  std::mutex abort_mutex_;
  std::function<void(const RankError&)> before_abort_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;  // in the order of the stream
  bool leaving_ = false;
  std::thread watch_;
};

// What make_nccl_communicator() makes.
std::unique_ptr<NcclCommunicator> connect_nccl(Store& store, const NcclPlace& place,
                                               const CommunicatorOptions& options);

}  // namespace lockstep::comm

// HierarchicalCommunicator: the own ring between the GPUs of each host, NCCL between hosts.
//
// The algorithm is HierarchicalTransport's, as stages that are enqueued; the host waits for
// nothing. An all-reduce is reduce-scattered inside each host, its slices are all-reduced across
// along the lanes (see host_map.h), and gathered inside; reduce and broadcast go the same way.
// Large data goes in pieces: the ring works on the caller's stream and NCCL on one of its own,
// events between them, so that one piece crosses while the next is reduced inside. reduce_scatter,
// all_gather, all_to_all and barrier go over NCCL alone, which connects all ranks.
//
// A stage that fails does not keep those behind it from running. So after the last stage over NCCL
// the ranks that it joined vouch for each other on the stream (comm/ring/cuda/vouchers.h), and
// where one does not, the last stage inside the host fails on all of its ranks: a sum that another
// host's failure made wrong never passes for good. A thread carries what failed on one level to the
// other and, through the store, to all ranks, which throw the first cause, with ranks as the world
// numbers them.
//
// What differs from the rules in communicator.h: bfloat16 and float16 are rounded at each level and
// by NCCL at every hop; ranks that disagree find out at the level that both calls come to, and by
// the timeout where there is none.
#pragma once

#include <memory>
#include <string>

#include "comm/hierarchical/host_map.h"
#include "comm/message/first_cause.h"
#include "comm/nccl/nccl_communicator.h"
#include "comm/ring/cuda/cuda_ring_communicator.h"
#include "comm/signature.h"

namespace lockstep::comm {

class HierarchicalCommunicator final : public Communicator {
 public:
  using Inside = ring::cuda::CudaRingCommunicator;

  // Collective. `inside` joins the ranks of this one's host, in the order of their places; `world`
  // all ranks; every host has as many ranks as the others. `prefix` is used once in the store,
  // which outlives this. StartupError, RankError.
  HierarchicalCommunicator(std::unique_ptr<Inside> inside, std::unique_ptr<NcclCommunicator> world,
                           HostMap hosts, const device::CudaPlace& place, Store& store,
                           const std::string& prefix, std::chrono::milliseconds start_timeout);
  ~HierarchicalCommunicator() override;

  int rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }
  std::string_view backend() const override { return "ring+nccl"; }
  const Capabilities& capabilities() const override { return world_->capabilities(); }

  Work all_reduce(Range data, ReduceOp op, Stream& stream, Tag tag) override;
  Work reduce(Range data, ReduceOp op, int root, Stream& stream, Tag tag) override;
  Work reduce_scatter(Range data, ReduceOp op, Stream& stream, Tag tag) override;
  Work all_gather(Range data, Stream& stream, Tag tag) override;
  Work broadcast(Range data, int root, Stream& stream, Tag tag) override;
  Work all_to_all(Range send, Range receive, Stream& stream, Tag tag) override;
  Work barrier(Stream& stream) override;
  // A group whose hosts have unequal numbers of ranks goes over NCCL alone.
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::shared_ptr<SymmetricBuffer> addressable_memory(std::size_t bytes) override;
  // On the clock of the stages inside the host, of which each collective has the first and the
  // last.
  Work mark(Stream& stream) override { return inside_->mark(stream); }
  void abort(int rank, const std::string& cause) override;

 private:
  enum class Level { inside, lane, world };
  class Failures;
  class Course;

  HierarchicalCommunicator(std::unique_ptr<Inside> inside, std::unique_ptr<NcclCommunicator> world,
                           HostMap hosts, const device::CudaPlace& place, Store& store,
                           const std::string& prefix, std::chrono::milliseconds start_timeout,
                           std::shared_ptr<FirstCause> cause);

  // A call that is allowed; throws UsageError.
  std::unique_ptr<Course> begin(CollectiveKind kind, Range data, Tag tag,
                                ReduceOp op = ReduceOp::sum, int root = -1, Range receive = {});
  // The ranks of the lane, or of the world, vouch for each other.
  void close_lane(Course& course, Stream& stream);
  Work close_world(std::unique_ptr<Course> course, const Work& last, Stream& stream);
  Work finish(std::unique_ptr<Course> course, Stream& stream);
  // Of what the ranks of this host hold together.
  Range own_slice(const Range& data) const;
  int host() const { return hosts_.host_of(rank()); }
  void end_waits(const RankError& cause);

  HostMap hosts_;
  device::CudaPlace place_;
  Store& store_;
  std::string prefix_;
  std::chrono::milliseconds start_timeout_;
  std::unique_ptr<Inside> inside_;  // outlives the others, which end it
  std::unique_ptr<NcclCommunicator> world_;
  std::unique_ptr<NcclCommunicator> lane_;  // the ranks of this one's lane, by host
  device::CudaStream outer_;
  ring::cuda::Vouchers lane_vouchers_, world_vouchers_;
  std::shared_ptr<Failures> failures_;
  std::uint64_t next_sequence_ = 0;
  std::unique_ptr<Stream> checks_;  // a thread that waits for all works and tells their failures
};

}  // namespace lockstep::comm

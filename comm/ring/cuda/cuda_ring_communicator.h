// CudaRingCommunicator: the project's own collectives between GPUs of one host, as kernels.
//
// A collective is a kernel launch; the host waits for nothing. Ranks compare what they have come
// for in the kernels, where every wait also has its deadline and watches for an abort. What a
// kernel finds wrong is seen by whoever waits for the work, and by a thread that also carries an
// abort of the group to the kernels.
//
// Data of any kind of device memory is served: it travels through slots of the communicator's own.
//
// A collective may be captured into a graph (Context::capture, on one of the streams that it was
// given). Each launch then counts as one more call on the host's side too, so the thread watches it
// and its error and times are had from Work::launched(). The graph must not be launched when the
// communicator is gone.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "comm/communicator.h"
#include "comm/host_communicator.h"
#include "comm/memory/cuda/peer_memory.h"
#include "comm/memory/group.h"
#include "comm/ring/cuda/algorithm.h"
#include "comm/ring/cuda/failure.h"
#include "comm/ring/cuda/rank_world.h"
#include "comm/ring/cuda/vouchers.h"
#include "comm/ring/ring.h"
#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::comm::ring::cuda {

// A moment on the host's clock and on the GPU's.
struct ClockOrigin {
  device::Clock::time_point host;
  std::uint64_t device = 0;
  device::Clock::time_point host_time(std::uint64_t time) const {
    return host + std::chrono::nanoseconds(static_cast<std::int64_t>(time - device));
  }
};

class CudaRingCommunicator final : public Communicator {
 public:
  // Collective. Throws ConfigError for an unknown options.algorithm, StartupError where GPUs cannot
  // reach each other or one has no room for the blocks of all its ranks at a time.
  CudaRingCommunicator(std::shared_ptr<Group> group, int device, const CommunicatorOptions& options,
                       const Shape& shape);
  ~CudaRingCommunicator() override;

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::string_view backend() const override { return "ring"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string_view algorithm_for(std::size_t bytes) const override;

  Work all_reduce(Range data, ReduceOp op, Stream& stream, Tag tag) override;
  Work reduce(Range data, ReduceOp op, int root, Stream& stream, Tag tag) override;
  Work reduce_scatter(Range data, ReduceOp op, Stream& stream, Tag tag) override;
  Work all_gather(Range data, Stream& stream, Tag tag) override;
  Work broadcast(Range data, int root, Stream& stream, Tag tag) override;
  Work all_to_all(Range send, Range receive, Stream& stream, Tag tag) override;
  Work barrier(Stream& stream) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::shared_ptr<SymmetricBuffer> addressable_memory(std::size_t bytes) override;
  void raise_on_failure(Range words) override;
  Work mark(Stream& stream) override;
  void abort(int rank, const std::string& cause) override;

  // This rank vouches, at this point of the stream, that nothing has failed in this communicator
  // and nothing was left out.
  void vouch(const Vouchers& vouchers, const Signature& call, Stream& stream);
  // Behind an all_gather of the vouchers: where one is missing, this communicator fails at this
  // point of the stream. `call` is what for, in messages.
  Work require_vouched(const Vouchers& vouchers, const Signature& call, Stream& stream);

 private:
  class CudaWork;

  Work submit(const Collective& call, Stream& stream);
  void enqueue(const Collective& collective, const device::CudaStream& stream);
  std::uint64_t add_enqueued(const Event& end);
  template <class Count>
  void follow(const std::shared_ptr<CudaWork>& work, const Event& end,
              const device::CudaStream& stream, Count count);
  const device::CudaStream& own(Stream& stream, std::string_view what) const;
  // Work that is no collective, with `launch`(CUDA stream), for `call`.
  template <class Launch>
  Work enqueue_beside(const Signature& call, Stream& stream, Launch&& launch);
  Algorithm choose(std::size_t bytes) const {
    return algorithm_ == Algorithm::choose ? choose_algorithm(bytes, size()) : algorithm_;
  }
  void enqueue_all_reduce(const Call& call, const device::CudaStream& stream);
  void enqueue_ring(const Call& call, const device::CudaStream& stream);
  void set_clock();
  device::Deadline soon() const { return device::Clock::now() + options_.timeout; }
  void watch();

  CommunicatorOptions options_;
  Algorithm algorithm_;
  std::shared_ptr<Group> group_;
  device::CudaPlace place_;
  device::CudaStream own_stream_;  // to set up, and for split()
  std::shared_ptr<Failure> failure_;
  PeerMemory peers_;
  RankWorld ground_;
  ClockOrigin clock_;
  Capabilities capabilities_;
  std::uint64_t enqueued_ = 0;  // collectives
  std::uint64_t marked_ = 0;    // marks
  Event last_;                  // the end of the last one

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t watched_ = 0;  // as enqueued_, for the thread
  bool leaving_ = false;
  std::thread watch_;
};

}  // namespace lockstep::comm::ring::cuda

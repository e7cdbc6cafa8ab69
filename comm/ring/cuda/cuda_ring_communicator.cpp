#include "comm/ring/cuda/cuda_ring_communicator.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "comm/ring/cuda/kernels.h"
#include "framework/device/cuda/cuda_graph.h"
#include "framework/device/cuda/cuda_peer.h"

namespace lockstep::comm {

std::unique_ptr<Communicator> make_cuda_ring_communicator(std::unique_ptr<Group> group, int device,
                                                          const CommunicatorOptions& options) {
  return std::make_unique<ring::cuda::CudaRingCommunicator>(std::move(group), device, options,
                                                            ring::cuda::Shape());
}

bool gpus_reach_each_other(std::span<const int> devices) {
  return std::all_of(devices.begin(), devices.end(), [&](int device) {
    return std::all_of(devices.begin(), devices.end(),
                       [&](int peer) { return device::can_reach_peer(device, peer); });
  });
}

device::PeerLink slowest_link(std::span<const int> devices) {
  auto slowest = device::PeerLink::none;
  for (const int device : devices)
    for (const int peer : devices) slowest = std::max(slowest, device::peer_link(device, peer));
  return slowest;
}

std::string cuda_ring_algorithm(const std::string& asked, std::size_t bytes, int ranks) {
  const auto algorithm = ring::cuda::algorithm_from_name(asked);
  if (algorithm != ring::cuda::Algorithm::choose) return asked;
  return std::string(name_of(ring::cuda::choose_algorithm(bytes, ranks)));
}

}  // namespace lockstep::comm

namespace lockstep::comm::ring::cuda {

namespace {

using device::check_cuda;

constexpr std::chrono::milliseconds between_looks{20};

}  // namespace

// Done when the kernel is; what it failed with stands in the control word. Where the collective was
// captured the number, and with it the times, are those of the graph's latest launch.
class CudaRingCommunicator::CudaWork final : public Work::State {
 public:
  enum class Kind { collective, mark };
  CudaWork(std::shared_ptr<Failure> failure, const ClockOrigin& origin, Kind kind)
      : failure_(std::move(failure)), origin_(origin), kind_(kind) {}

  Kind kind() const { return kind_; }
  void set(std::uint64_t number, Event event) {
    number_ = number;
    event_ = std::move(event);
  }
  void set_launched(std::shared_ptr<const CudaWork> launched) { launched_ = std::move(launched); }

  Event event() const override { return event_; }
  void throw_if_failed() const override { failure_->throw_if_any(); }
  Work::Times times() const override {
    const Control& control = failure_->control();
    const auto& kept = kind_ == Kind::mark ? control.marks : control.times;
    const Control::Times& times = kept[number_ % Control::kept_times];
    if (number_ == 0 || times.number != number_) return {};  // none, or a later one took its place
    return {origin_.host_time(times.start), origin_.host_time(times.end)};
  }
  std::shared_ptr<const State> launched() const override { return launched_; }

 private:
  std::shared_ptr<Failure> failure_;
  ClockOrigin origin_;
  Kind kind_;
  std::uint64_t number_ = 0;
  Event event_;
  std::shared_ptr<const CudaWork> launched_;
};

CudaRingCommunicator::CudaRingCommunicator(std::shared_ptr<Group> group, int device,
                                           const CommunicatorOptions& options, const Shape& shape)
    : options_(options),
      algorithm_(algorithm_from_name(options.algorithm)),
      group_(std::move(group)),
      place_{device, group_->rank()},
      own_stream_(place_, device::StreamPriority::high, "ring"),
      failure_(std::make_shared<Failure>(group_, make_control(place_), options.timeout)),
      peers_(*group_, place_, soon()),
      ground_(rank(), size(), own_stream_, peers_, shape, failure_->control(), options.timeout,
              soon()),
      capabilities_(all_capabilities(DeviceKind::cuda)) {
  capabilities_.can_be_captured = true;
  capabilities_.cost = cost_between_gpus(peers_.slowest_link(soon()));
  set_clock();
  watch_ = std::thread([this] { watch(); });
}

CudaRingCommunicator::~CudaRingCommunicator() {
  try {
    last_.wait();
  } catch (const Error&) {  // whoever waits for the work is told
  }
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  watch_.join();
}

void CudaRingCommunicator::set_clock() {
  std::uint64_t& now = failure_->control().times[0].start;
  launch_clock(own_stream_, &now);
  own_stream_.synchronize();
  clock_ = {device::Clock::now(), now};
}

std::string_view CudaRingCommunicator::algorithm_for(std::size_t bytes) const {
  return name_of(choose(bytes));
}

std::shared_ptr<SymmetricBuffer> CudaRingCommunicator::addressable_memory(std::size_t bytes) {
  return peers_.allocate(bytes, soon());
}

void CudaRingCommunicator::raise_on_failure(Range words) {
  if (words.count > 0 && words.dtype != DType::int32)
    throw UsageError(fmt::format("raise_on_failure: found words of {}, expected int32",
                                 base::name_of(words.dtype)));
  ground_.set_raised(static_cast<std::int32_t*>(words.data), static_cast<int>(words.count));
}

void CudaRingCommunicator::abort(int rank, const std::string& cause) {
  failure_->offer(rank, cause);
}

Work CudaRingCommunicator::all_reduce(Range data, ReduceOp op, Stream& stream, Tag tag) {
  return submit(make_call(*this, CollectiveKind::all_reduce, data, tag, op), stream);
}

Work CudaRingCommunicator::reduce(Range data, ReduceOp op, int root, Stream& stream, Tag tag) {
  return submit(make_call(*this, CollectiveKind::reduce, data, tag, op, root), stream);
}

Work CudaRingCommunicator::reduce_scatter(Range data, ReduceOp op, Stream& stream, Tag tag) {
  return submit(make_call(*this, CollectiveKind::reduce_scatter, data, tag, op), stream);
}

Work CudaRingCommunicator::all_gather(Range data, Stream& stream, Tag tag) {
  return submit(make_call(*this, CollectiveKind::all_gather, data, tag), stream);
}

Work CudaRingCommunicator::broadcast(Range data, int root, Stream& stream, Tag tag) {
  return submit(make_call(*this, CollectiveKind::broadcast, data, tag, ReduceOp::sum, root),
                stream);
}

Work CudaRingCommunicator::all_to_all(Range send, Range receive, Stream& stream, Tag tag) {
  return submit(make_call(*this, CollectiveKind::all_to_all, send, tag, ReduceOp::sum, -1, receive),
                stream);
}

Work CudaRingCommunicator::barrier(Stream& stream) {
  return submit(make_call(*this, CollectiveKind::barrier, {.dtype = DType::uint8}, no_tag), stream);
}

std::unique_ptr<Communicator> CudaRingCommunicator::split(int color, int key) {
  last_.wait();
  submit(make_call(*this, CollectiveKind::split, {.dtype = DType::uint8}, no_tag), own_stream_)
      .wait();
  std::shared_ptr<Group> part = group_->split(color, key, soon());
  if (!part) return nullptr;
  return std::make_unique<CudaRingCommunicator>(std::move(part), place_.device, options_,
                                                ground_.shape());
}

// The rank's own kind of stream; UsageError.
const device::CudaStream& CudaRingCommunicator::own(Stream& stream, std::string_view what) const {
  const device::CudaStream& cuda = device::cuda_stream(stream);
  if (cuda.place().device != place_.device)
    throw UsageError(fmt::format("{} on a stream of cuda:{} by a rank of cuda:{}", what,
                                 cuda.place().device, place_.device));
  return cuda;
}

Work CudaRingCommunicator::submit(const Collective& call, Stream& stream) {
  const device::CudaStream& cuda = own(stream, name_of(call.signature.kind));
  if (cuda.capture() != nullptr) failure_->throw_if_any();  // a graph without it is of no use
  auto work = std::make_shared<CudaWork>(failure_, clock_, CudaWork::Kind::collective);
  if (failure_->find()) return Work(std::move(work));
  try {
    enqueue(call, cuda);
    follow(work, stream.record(), cuda, [this](const Event& end) { return add_enqueued(end); });
  } catch (const CaptureError&) {
    throw;
  } catch (const Error& error) {
    failure_->offer(rank(), fmt::format("rank {} failed in {}: {}", rank(),
                                        to_string(call.signature), error.what()));
  }
  return Work(std::move(work));
}

// The host counts what it has enqueued as the kernels count what they have done, in the same order.
// Returns the number.
std::uint64_t CudaRingCommunicator::add_enqueued(const Event& end) {
  last_ = end;
  if (size() == 1) return 0;  // no kernel counts
  const std::uint64_t number = ++enqueued_;
  {
    const std::lock_guard lock(mutex_);
    watched_ = number;
  }
  changed_.notify_all();
  return number;
}

// `count`(end) is the number of what was enqueued last. In a capture `end` is an edge of the graph;
// what a launch enqueues is counted then, and done with the graph.
template <class Count>
void CudaRingCommunicator::follow(const std::shared_ptr<CudaWork>& work, const Event& end,
                                  const device::CudaStream& stream, Count count) {
  if (stream.capture() == nullptr) return work->set(count(end), end);
  work->set(0, end);
  stream.capture()->on_launch([this, work, count](const Event& graph_end) {
    auto launched = std::make_shared<CudaWork>(failure_, clock_, work->kind());
    launched->set(count(graph_end), graph_end);
    work->set_launched(std::move(launched));
  });
}

Work CudaRingCommunicator::mark(Stream& stream) {
  const device::CudaStream& cuda = own(stream, "mark");
  auto work = std::make_shared<CudaWork>(failure_, clock_, CudaWork::Kind::mark);
  if (failure_->find()) return Work(std::move(work));
  launch_mark(cuda, ground_.world());
  follow(work, stream.record(), cuda, [this](const Event&) { return ++marked_; });
  return Work(std::move(work));
}

// Also where this communicator has failed: then it is what the others have to learn.
void CudaRingCommunicator::vouch(const Vouchers& vouchers, const Signature& call, Stream& stream) {
  failure_->find();  // what other ranks have told, the kernels hear of by this
  static_cast<void>(enqueue_beside(call, stream, [&](const device::CudaStream& cuda) {
    launch_vouch(cuda, ground_.world(), vouchers.words());
  }));
}

Work CudaRingCommunicator::require_vouched(const Vouchers& vouchers, const Signature& call,
                                           Stream& stream) {
  return enqueue_beside(call, stream, [&](const device::CudaStream& cuda) {
    launch_require_vouched(cuda, ground_.world(), vouchers.words(), call);
  });
}

template <class Launch>
Work CudaRingCommunicator::enqueue_beside(const Signature& call, Stream& stream,
                                          Launch&& launch_on) {
  const device::CudaStream& cuda = own(stream, name_of(call.kind));
  auto work = std::make_shared<CudaWork>(failure_, clock_, CudaWork::Kind::collective);
  try {
    launch_on(cuda);
    last_ = stream.record();
    work->set(0, last_);
  } catch (const Error& error) {
    failure_->offer(rank(),
                    fmt::format("rank {} failed in {}: {}", rank(), to_string(call), error.what()));
  }
  return Work(std::move(work));
}

void CudaRingCommunicator::enqueue(const Collective& collective, const device::CudaStream& stream) {
  const Signature& signature = collective.signature;
  const Call call{signature, collective.data.data, collective.receive.data, signature.count};
  if (size() == 1) {
    // A reduction over one rank, the average included, is what it was.
    stream.activate();
    if (signature.kind == CollectiveKind::all_to_all && call.count > 0)
      check_cuda(cudaMemcpyAsync(call.receive, call.data, collective.data.bytes(),
                                 cudaMemcpyDefault, stream.native()),
                 "cudaMemcpyAsync", place_);
    return;
  }
  switch (signature.kind) {
    case CollectiveKind::barrier:
    case CollectiveKind::split:
      return launch_meeting(stream, ground_.world(), call);
    case CollectiveKind::all_to_all: {
      const std::int64_t pieces = base::ceil_div(
          call.count / size(), all_to_all_piece(ground_.world().layout, signature.dtype));
      return launch_all_to_all(stream, ground_.channels_for(pieces), ground_.world(), call);
    }
    case CollectiveKind::all_reduce:
      return enqueue_all_reduce(call, stream);
    default:
      return enqueue_ring(call, stream);
  }
}

void CudaRingCommunicator::enqueue_all_reduce(const Call& call, const device::CudaStream& stream) {
  const auto element = static_cast<std::int64_t>(base::size_of(call.signature.dtype));
  const Algorithm algorithm = choose(static_cast<std::size_t>(call.count * element));
  Call part = call;
  part.signature.algorithm = static_cast<std::uint8_t>(algorithm);
  if (algorithm == Algorithm::ring) return enqueue_ring(part, stream);
  const bool twice = algorithm == Algorithm::two_shot;
  const auto most =
      static_cast<std::int64_t>(capacity_of(algorithm, ground_.world().layout)) / element;
  std::int64_t begin = 0;
  do {  // once for empty data too
    part.data = static_cast<std::byte*>(call.data) + begin * element;
    part.count = std::min(most, call.count - begin);
    part.is_last = begin + most >= call.count;
    // An octet for each thread, as far as the channel's packs go.
    const Shape& shape = ground_.shape();
    const std::int64_t octets = base::ceil_div(part.count * element, 8);
    const std::int64_t per_channel =
        std::min<std::int64_t>(shape.threads, twice ? shape.packs / 2 : shape.packs);
    const std::int64_t tasks =
        base::ceil_div(twice ? base::ceil_div(octets, size()) : octets, per_channel);
    launch_low_latency(stream, ground_.channels_for(tasks), ground_.world(), part, twice);
    begin += most;
  } while (begin < call.count);
}

void CudaRingCommunicator::enqueue_ring(const Call& call, const device::CudaStream& stream) {
  const RingPlan plan = ground_.plan_for(call);
  const std::int64_t runs = base::ceil_div(plan.longest_slice(call.count), run_pieces * plan.piece);
  launch_ring(stream, ground_.channels_for(runs), ground_.world(), call, plan);
}

void CudaRingCommunicator::watch() {
  const auto is_pending = [this] {
    const auto finished = std::atomic_ref(failure_->control().finished);
    return finished.load(std::memory_order_acquire) < watched_ && !failure_->find();
  };
  std::unique_lock lock(mutex_);
  while (!leaving_) {
    if (is_pending()) {
      changed_.wait_for(lock, between_looks);
    } else {
      changed_.wait(lock);
    }
  }
}

}  // namespace lockstep::comm::ring::cuda

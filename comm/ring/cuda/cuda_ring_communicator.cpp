#include "comm/ring/cuda/cuda_ring_communicator.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <new>

#include "comm/ring/cuda/kernels.h"
#include "framework/device/cuda/cuda_peer.h"

namespace lockstep::comm {

std::unique_ptr<Communicator> make_cuda_ring_communicator(std::unique_ptr<Group> group, int device,
                                                          const CommunicatorOptions& options) {
  return std::make_unique<ring::cuda::CudaRingCommunicator>(std::move(group), device, options,
                                                            ring::cuda::Shape());
}

}  // namespace lockstep::comm

namespace lockstep::comm::ring::cuda {

namespace {

using device::check_cuda;

constexpr std::chrono::milliseconds between_looks{20};

std::size_t partial_bytes(DType dtype) {
  const std::size_t bytes = base::size_of(dtype);
  return bytes == 2 ? sizeof(float) : bytes;
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::shared_ptr<Control> make_control(const device::CudaPlace& place) {
  const auto memory = std::make_shared<device::CudaHostMemory>(place);
  auto* const control = new (memory->allocate(sizeof(Control))) Control();
  return {control, [memory](Control* c) { memory->deallocate(c, sizeof(Control)); }};
}

}  // namespace

// Done when the kernel is; what it failed with stands in the control word.
class CudaRingCommunicator::CudaWork final : public Work::State {
 public:
  CudaWork(std::shared_ptr<Failure> failure, std::uint64_t ticket, const ClockOrigin& origin)
      : failure_(std::move(failure)), ticket_(ticket), origin_(origin) {}

  void set_event(Event event) { event_ = std::move(event); }

  Event event() const override { return event_; }
  void throw_if_failed() const override { failure_->throw_if_any(); }
  Work::Times times() const override {
    const Control::Times& times = failure_->control().times[ticket_ % Control::kept_times];
    if (times.ticket != ticket_) return {};  // a later one has taken the place
    return {origin_.host_time(times.start), origin_.host_time(times.end)};
  }

 private:
  std::shared_ptr<Failure> failure_;
  std::uint64_t ticket_;
  ClockOrigin origin_;
  Event event_;
};

CudaRingCommunicator::CudaRingCommunicator(std::shared_ptr<Group> group, int device,
                                           const CommunicatorOptions& options, const Shape& shape)
    : options_(options),
      group_(std::move(group)),
      place_{device, group_->rank()},
      device_memory_(place_),
      own_stream_(place_, device::StreamPriority::high, "ring"),
      peers_(*group_, place_, soon()),
      failure_(std::make_shared<Failure>(group_, make_control(place_), options.timeout)) {
  if (options.algorithm != "auto" && options.algorithm != "ring")
    throw ConfigError(
        fmt::format("comm.algorithm: found \"{}\", expected one of auto, ring for "
                    "ranks on GPUs",
                    options.algorithm));
  if (size() > most_ranks)
    throw StartupError(
        fmt::format("backend ring: {} ranks on the GPUs of one host, expected at "
                    "most {}",
                    size(), most_ranks));
  world_.rank = rank();
  world_.layout = {size(), shape};
  world_.layout.shape.channels = coresident_channels(shape);
  world_.control = &failure_->control();
  world_.timeout = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(options.timeout).count());
  channels_ = peers_.allocate(world_.layout.bytes(), soon());
  upload_tables();
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

// Blocks that wait for each other must all have room at a time.
int CudaRingCommunicator::coresident_channels(const Shape& shape) {
  const int blocks = std::min(load_ring_kernels(own_stream_, shape.threads),
                              load_meeting_kernels(own_stream_, shape.threads));
  const int room = blocks / peers_.ranks_on_this_device();
  const int channels = peers_.least(std::min(room, shape.channels), soon());
  if (channels < 1)
    throw StartupError(fmt::format(
        "backend ring: cuda:{} holds {} blocks of {} threads at a time, too few for its {} ranks",
        place_.device, blocks, shape.threads, peers_.ranks_on_this_device()));
  return channels;
}

void CudaRingCommunicator::upload_tables() {
  if (size() == 1) return;
  std::vector<schedule::Step> steps;
  const auto add = [&](const schedule::Schedule& schedule) {
    plans_.push_back({.count = static_cast<int>(schedule.steps.size()), .slices = schedule.slices});
    steps.insert(steps.end(), schedule.steps.begin(), schedule.steps.end());
  };
  add(schedule::ring_all_reduce(rank(), size()));
  add(schedule::ring_reduce_scatter(rank(), size()));
  add(schedule::ring_all_gather(rank(), size()));
  for (int root = 0; root < size(); ++root) add(schedule::ring_broadcast(rank(), size(), root));
  for (int root = 0; root < size(); ++root) add(schedule::ring_reduce(rank(), size(), root));

  // In memory: each rank's channels as seen from here, whether a block has failed, the steps.
  std::vector<std::byte*> parts;
  for (int r = 0; r < size(); ++r) parts.push_back(channels_->part(r).data());
  const std::size_t parts_bytes = parts.size() * sizeof(std::byte*);
  const std::size_t steps_offset = parts_bytes + 8;
  std::vector<std::byte> table(steps_offset + steps.size() * sizeof(schedule::Step));
  std::memcpy(table.data(), parts.data(), parts_bytes);
  std::memcpy(table.data() + steps_offset, steps.data(), table.size() - steps_offset);
  tables_ = device::Buffer(device_memory_, table.size());
  check_cuda(cudaMemcpyAsync(tables_.data(), table.data(), table.size(), cudaMemcpyDefault,
                             own_stream_.native()),
             "cudaMemcpyAsync", place_);
  own_stream_.synchronize();
  auto* const device_table = static_cast<std::byte*>(tables_.data());
  world_.memory = reinterpret_cast<std::byte* const*>(device_table);
  world_.failed = reinterpret_cast<std::uint32_t*>(device_table + parts_bytes);
  const auto* next = reinterpret_cast<const schedule::Step*>(device_table + steps_offset);
  for (RingPlan& plan : plans_) {
    plan.steps = next;
    next += plan.count;
  }
}

void CudaRingCommunicator::set_clock() {
  std::uint64_t& now = failure_->control().times[0].start;
  launch_clock(own_stream_, &now);
  own_stream_.synchronize();
  clock_ = {device::Clock::now(), now};
}

const Capabilities& CudaRingCommunicator::capabilities() const {
  using K = CollectiveKind;
  static const Capabilities capabilities = {
      .dtypes = {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int32,
                 DType::int64, DType::uint8},
      .ops = {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min},
      .collectives = {K::all_reduce, K::reduce, K::reduce_scatter, K::all_gather, K::broadcast,
                      K::all_to_all, K::barrier, K::split},
      .devices = {DeviceKind::cuda}};
  return capabilities;
}

std::shared_ptr<SymmetricBuffer> CudaRingCommunicator::addressable_memory(std::size_t bytes) {
  return peers_.allocate(bytes, soon());
}

void CudaRingCommunicator::abort(int rank, const std::string& cause) {
  failure_->offer(rank, cause);
}

Collective CudaRingCommunicator::make_call(CollectiveKind kind, Range data, Tag tag, ReduceOp op,
                                           int root, Range receive) const {
  Collective call;
  call.signature = {
      .count = data.count, .tag = tag, .root = root, .kind = kind, .dtype = data.dtype, .op = op};
  call.data = data;
  call.receive = receive;
  check_arguments(call, *this);
  return call;
}

Work CudaRingCommunicator::all_reduce(Range data, ReduceOp op, Stream& stream, Tag tag) {
  return submit(make_call(CollectiveKind::all_reduce, data, tag, op), stream);
}

Work CudaRingCommunicator::reduce(Range data, ReduceOp op, int root, Stream& stream, Tag tag) {
  return submit(make_call(CollectiveKind::reduce, data, tag, op, root), stream);
}

Work CudaRingCommunicator::reduce_scatter(Range data, ReduceOp op, Stream& stream, Tag tag) {
  return submit(make_call(CollectiveKind::reduce_scatter, data, tag, op), stream);
}

Work CudaRingCommunicator::all_gather(Range data, Stream& stream, Tag tag) {
  return submit(make_call(CollectiveKind::all_gather, data, tag), stream);
}

Work CudaRingCommunicator::broadcast(Range data, int root, Stream& stream, Tag tag) {
  return submit(make_call(CollectiveKind::broadcast, data, tag, ReduceOp::sum, root), stream);
}

Work CudaRingCommunicator::all_to_all(Range send, Range receive, Stream& stream, Tag tag) {
  return submit(make_call(CollectiveKind::all_to_all, send, tag, ReduceOp::sum, -1, receive),
                stream);
}

Work CudaRingCommunicator::barrier(Stream& stream) {
  return submit(make_call(CollectiveKind::barrier, {.dtype = DType::uint8}, no_tag), stream);
}

std::unique_ptr<Communicator> CudaRingCommunicator::split(int color, int key) {
  last_.wait();
  submit(make_call(CollectiveKind::split, {.dtype = DType::uint8}, no_tag), own_stream_).wait();
  std::shared_ptr<Group> part = group_->split(color, key, soon());
  if (!part) return nullptr;
  return std::make_unique<CudaRingCommunicator>(std::move(part), place_.device, options_,
                                                world_.layout.shape);
}

Work CudaRingCommunicator::submit(const Collective& call, Stream& stream) {
  const device::CudaStream& cuda = device::cuda_stream(stream);
  if (cuda.place().device != place_.device)
    throw UsageError(fmt::format("{} on a stream of cuda:{} by a rank of cuda:{}",
                                 name_of(call.signature.kind), cuda.place().device, place_.device));
  const std::uint64_t ticket = ++submitted_;
  auto work = std::make_shared<CudaWork>(failure_, ticket, clock_);
  if (failure_->find()) return Work(std::move(work));
  try {
    enqueue(call, ticket, cuda);
    last_ = stream.record();
    work->set_event(last_);
  } catch (const Error& error) {
    failure_->offer(rank(), fmt::format("rank {} failed in {}: {}", rank(),
                                        to_string(call.signature), error.what()));
    return Work(std::move(work));
  }
  {
    const std::lock_guard lock(mutex_);
    watched_ = ticket;
  }
  changed_.notify_all();
  return Work(std::move(work));
}

void CudaRingCommunicator::enqueue(const Collective& collective, std::uint64_t ticket,
                                   const device::CudaStream& stream) {
  const Signature& signature = collective.signature;
  const Call call{signature, ticket, collective.data.data, collective.receive.data};
  if (size() == 1) {
    // A reduction over one rank, the average included, is what it was.
    stream.activate();
    if (signature.kind == CollectiveKind::all_to_all && collective.data.count > 0)
      check_cuda(cudaMemcpyAsync(call.receive, call.data, collective.data.bytes(),
                                 cudaMemcpyDefault, stream.native()),
                 "cudaMemcpyAsync", place_);
    return;
  }
  switch (signature.kind) {
    case CollectiveKind::barrier:
    case CollectiveKind::split:
      return launch_meeting(stream, world_, call);
    case CollectiveKind::all_to_all: {
      const std::int64_t pieces =
          divide_up(signature.count / size(), all_to_all_piece(world_.layout, signature.dtype));
      return launch_all_to_all(stream, channels_for(pieces), world_, call);
    }
    default: {
      const RingPlan plan = plan_for(signature);
      const std::int64_t runs =
          divide_up(plan.longest_slice(signature.count), run_pieces * plan.piece);
      return launch_ring(stream, channels_for(runs), world_, call, plan);
    }
  }
}

RingPlan CudaRingCommunicator::plan_for(const Signature& signature) const {
  const auto plan_at = [&](int index) { return plans_[static_cast<std::size_t>(index)]; };
  const Shape& shape = world_.layout.shape;
  const auto group = static_cast<std::int64_t>(16 / base::size_of(signature.dtype));
  RingPlan plan;
  switch (signature.kind) {
    case CollectiveKind::all_reduce:
      plan = plan_at(0);
      // How the data is cut is the ring's own business here: so that slices keep the alignment.
      plan.slice_width =
          std::max<std::int64_t>(divide_up(divide_up(signature.count, plan.slices), group), 1) *
          group;
      break;
    case CollectiveKind::reduce_scatter:
      plan = plan_at(1);
      break;
    case CollectiveKind::all_gather:
      plan = plan_at(2);
      break;
    case CollectiveKind::broadcast:
      plan = plan_at(3 + signature.root);
      break;
    default:
      plan = plan_at(3 + size() + signature.root);
  }
  // Small enough to give all channels work, but a group for each thread, and as slots allow.
  const auto most = static_cast<std::int64_t>(shape.slot_bytes / partial_bytes(signature.dtype));
  const std::int64_t least = std::min(most, static_cast<std::int64_t>(shape.threads) * group);
  const std::int64_t even =
      divide_up(plan.longest_slice(signature.count), std::int64_t{shape.channels} * run_pieces);
  plan.piece = std::clamp(divide_up(even, group) * group, least, most);
  return plan;
}

int CudaRingCommunicator::channels_for(std::int64_t tasks) const {
  return static_cast<int>(std::clamp<std::int64_t>(tasks, 1, world_.layout.shape.channels));
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

#include "comm/ring/cuda/rank_world.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "comm/ring/cuda/kernels.h"
#include "framework/base/error.h"

namespace lockstep::comm::ring::cuda {

namespace {

using device::check_cuda;

std::size_t partial_bytes(DType dtype) {
  const std::size_t bytes = base::size_of(dtype);
  return bytes == 2 ? sizeof(float) : bytes;
}

}  // namespace

std::shared_ptr<Control> make_control(const device::CudaPlace& place) {
  const auto memory = std::make_shared<device::CudaHostMemory>(place);
  auto* const control = new (memory->allocate(sizeof(Control))) Control();
  return {control, [memory](Control* c) { memory->deallocate(c, sizeof(Control)); }};
}

RankWorld::RankWorld(int rank, int size, const device::CudaStream& stream, PeerMemory& peers,
                     const Shape& shape, Control& control, std::chrono::milliseconds timeout,
                     device::Deadline deadline)
    : device_memory_(stream.place()) {
  world_.rank = rank;
  world_.layout = {size, shape};
  world_.control = &control;
  world_.timeout = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(timeout).count());
  words_ = device::Buffer(device_memory_, sizeof(*world_.marks) + sizeof(*world_.failed));
  check_cuda(cudaMemsetAsync(words_.data(), 0, words_.bytes(), stream.native()), "cudaMemsetAsync",
             stream.place());
  check_cuda(cudaStreamSynchronize(stream.native()), "cudaStreamSynchronize", stream.place());
  world_.marks = static_cast<std::uint64_t*>(words_.data());
  world_.failed = reinterpret_cast<std::uint32_t*>(world_.marks + 1);
  if (size == 1) return;  // no collective is launched
  require_valid(shape);
  world_.layout.shape.channels = coresident_channels(stream, peers, shape, deadline);
  channels_ = peers.allocate(world_.layout.bytes(), deadline);
  upload_tables(stream);
}

// What the kernels take for granted.
void RankWorld::require_valid(const Shape& shape) const {
  const auto ranks = static_cast<std::size_t>(size());
  if (size() > most_ranks)
    throw StartupError(fmt::format(
        "backend ring: {} ranks on the GPUs of one host, expected at most {}", ranks, most_ranks));
  if (shape.channels < 1 || shape.threads % 32 != 0 || shape.threads < ranks ||
      shape.threads > most_threads || shape.slot_bytes % 128 != 0 || shape.packs < 2 ||
      shape.packs % 2 != 0 || slots * shape.slot_bytes / 2 / ranks < 128)
    throw UsageError(
        fmt::format("a ring of {} ranks cannot have {} channels of {} threads, slots of "
                    "{} bytes and {} packs",
                    ranks, shape.channels, shape.threads, shape.slot_bytes, shape.packs));
}

// Blocks that wait for each other must all have room at a time.
int RankWorld::coresident_channels(const device::CudaStream& stream, PeerMemory& peers,
                                   const Shape& shape, device::Deadline deadline) const {
  const int blocks = std::min({load_ring_kernels(stream, shape.threads),
                               load_low_latency_kernels(stream, shape.threads),
                               load_meeting_kernels(stream, shape.threads)});
  const int room = blocks / peers.ranks_on_this_device();
  const int channels = peers.least(std::min(room, shape.channels), deadline);
  if (channels < 1)
    throw StartupError(fmt::format(
        "backend ring: cuda:{} holds {} blocks of {} threads at a time, too few for its {} ranks",
        stream.place().device, blocks, shape.threads, peers.ranks_on_this_device()));
  return channels;
}

void RankWorld::upload_tables(const device::CudaStream& stream) {
  const int rank = world_.rank;
  std::vector<schedule::Step> steps;
  const auto add = [&](const schedule::Schedule& schedule) {
    plans_.push_back({.count = static_cast<int>(schedule.steps.size()), .slices = schedule.slices});
    steps.insert(steps.end(), schedule.steps.begin(), schedule.steps.end());
  };
  add(schedule::ring_all_reduce(rank, size()));
  add(schedule::ring_reduce_scatter(rank, size()));
  add(schedule::ring_all_gather(rank, size()));
  for (int root = 0; root < size(); ++root) add(schedule::ring_broadcast(rank, size(), root));
  for (int root = 0; root < size(); ++root) add(schedule::ring_reduce(rank, size(), root));

  // In memory: each rank's channels as seen from here, then the steps.
  std::vector<std::byte*> parts;
  for (int r = 0; r < size(); ++r) parts.push_back(channels_->part(r).data());
  const std::size_t parts_bytes = parts.size() * sizeof(std::byte*);
  std::vector<std::byte> table(parts_bytes + steps.size() * sizeof(schedule::Step));
  std::memcpy(table.data(), parts.data(), parts_bytes);
  std::memcpy(table.data() + parts_bytes, steps.data(), table.size() - parts_bytes);
  tables_ = device::Buffer(device_memory_, table.size());
  check_cuda(cudaMemcpyAsync(tables_.data(), table.data(), table.size(), cudaMemcpyDefault,
                             stream.native()),
             "cudaMemcpyAsync", stream.place());
  check_cuda(cudaStreamSynchronize(stream.native()), "cudaStreamSynchronize", stream.place());
  auto* const device_table = static_cast<std::byte*>(tables_.data());
  world_.memory = reinterpret_cast<std::byte* const*>(device_table);
  const auto* next = reinterpret_cast<const schedule::Step*>(device_table + parts_bytes);
  for (RingPlan& plan : plans_) {
    plan.steps = next;
    next += plan.count;
  }
}

RingPlan RankWorld::plan_for(const Call& call) const {
  const auto plan_at = [&](int index) { return plans_[static_cast<std::size_t>(index)]; };
  const Shape& shape = world_.layout.shape;
  const Signature& signature = call.signature;
  const auto group = static_cast<std::int64_t>(16 / base::size_of(signature.dtype));
  RingPlan plan;
  switch (signature.kind) {
    case CollectiveKind::all_reduce:
      plan = plan_at(0);
      // How the data is cut is the ring's own business here: so that slices keep the alignment.
      plan.slice_width = std::max<std::int64_t>(
                             base::ceil_div(base::ceil_div(call.count, plan.slices), group), 1) *
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
  const std::int64_t even = base::ceil_div(plan.longest_slice(signature.count),
                                           std::int64_t{shape.channels} * run_pieces);
  plan.piece = std::clamp(base::ceil_div(even, group) * group, least, most);
  return plan;
}

int RankWorld::channels_for(std::int64_t tasks) const {
  return static_cast<int>(std::clamp<std::int64_t>(tasks, 1, world_.layout.shape.channels));
}

}  // namespace lockstep::comm::ring::cuda

// Collectives in which every rank deals with every other at a time: all_to_all, and the mere
// meeting of a barrier.
#include "comm/ring/cuda/channel.cuh"
#include "comm/ring/cuda/elements.cuh"
#include "comm/ring/cuda/kernels.h"
#include "comm/ring/cuda/load.cuh"

namespace lockstep::comm::ring::cuda {
namespace {

// What one rank leaves for one other in a round: the slots of a channel are cut into two halves,
// used in turn, and each half into a part for each rank.
constexpr std::size_t part_bytes(const Layout& layout) {
  return slots * layout.shape.slot_bytes / 2 / static_cast<std::size_t>(layout.ranks) / 128 * 128;
}

// T is an element of the same size.
template <class T>
__global__ void __launch_bounds__(most_threads, 1) all_to_all_kernel(World world, Call call) {
  const Channel channel(world, call);
  if (!channel.open()) return;
  const int rank = channel.rank(), size = channel.size();
  const std::int64_t slice = call.count / size;
  const std::size_t bytes = part_bytes(world.layout);
  const auto piece = static_cast<std::int64_t>(bytes / sizeof(T));
  auto& state = channel.head(rank).state;
  std::uint64_t rounds = state.rounds;
  int half = 0;
  for (std::int64_t begin = blockIdx.x * piece; begin < slice; begin += gridDim.x * piece) {
    const std::int64_t count = slice - begin < piece ? slice - begin : piece;
    const auto at = [&](void* all, int index) {
      return static_cast<T*>(all) + index * slice + begin;
    };
    const auto part = [&](int of, int index) {
      return reinterpret_cast<T*>(channel.slots_of(of) +
                                  static_cast<std::size_t>(half * size + index) * bytes);
    };
    for (int r = 0; r < size; ++r) {
      copy_to_slot(part(rank, r), static_cast<const T*>(at(call.data, r)), count);
    }
    if (!channel.meet(rounds)) return;
    for (int step = 0; step < size; ++step) {
      const int r = (rank + step) % size;  // every rank reads from another one
      copy_from_slot(at(call.receive, r), static_cast<const T*>(part(r, rank)), count);
    }
    half = 1 - half;
  }
  if (!channel.meet(rounds)) return;  // all have read
  if (threadIdx.x == 0) state.rounds = rounds;
  channel.close();
}

template <class F>
void visit_size(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(base::TypeTag<std::uint8_t>{});
    case 2:
      return f(base::TypeTag<std::uint16_t>{});
    case 4:
      return f(base::TypeTag<std::uint32_t>{});
    default:
      return f(base::TypeTag<std::uint64_t>{});
  }
}

__global__ void __launch_bounds__(most_threads, 1) meeting_kernel(World world, Call call) {
  const Channel channel(world, call);
  if (channel.open()) channel.close();
}

__global__ void clock_kernel(std::uint64_t* now) {
  *now = device::global_timer();
}

__global__ void mark_kernel(World world) {
  const std::uint64_t now = device::global_timer(), number = ++*world.marks;
  world.control->marks[number % Control::kept_times] = {number, now, now};
}

}  // namespace

void launch_all_to_all(const device::CudaStream& stream, int channels, const World& world,
                       const Call& call) {
  visit_size(base::size_of(call.signature.dtype), [&]<class T>(base::TypeTag<T>) {
    device::launch(stream, {static_cast<unsigned>(channels), world.layout.shape.threads},
                   all_to_all_kernel<T>, world, call);
  });
}

std::int64_t all_to_all_piece(const Layout& layout, DType dtype) {
  return static_cast<std::int64_t>(part_bytes(layout) / base::size_of(dtype));
}

void launch_meeting(const device::CudaStream& stream, const World& world, const Call& call) {
  device::launch(stream, {1, world.layout.shape.threads}, meeting_kernel, world, call);
}

void launch_clock(const device::CudaStream& stream, std::uint64_t* now) {
  device::launch(stream, {1, 1}, clock_kernel, now);
}

void launch_mark(const device::CudaStream& stream, const World& world) {
  device::launch(stream, {1, 1}, mark_kernel, world);
}

int load_meeting_kernels(const device::CudaStream& stream, unsigned threads) {
  device::load_kernel(stream, meeting_kernel);
  device::load_kernel(stream, clock_kernel);
  device::load_kernel(stream, mark_kernel);
  int blocks = std::numeric_limits<int>::max();
  for (const std::size_t bytes : {1, 2, 4, 8}) {
    visit_size(bytes, [&]<class T>(base::TypeTag<T>) {
      blocks = std::min(blocks, load_blocks(stream, all_to_all_kernel<T>, threads));
    });
  }
  return blocks;
}

}  // namespace lockstep::comm::ring::cuda

// Bugs in how the ring between GPUs signals and waits: the kernels of comm/ring/cuda with other
// protocols.
#include <thread>

#include "comm/ring/cuda/rank_world.h"
#include "comm/ring/cuda/ring_kernel.cuh"
#include "tests/emulation/bugs/bugs.h"
#include "tests/emulation/bugs/device_array.h"

namespace lockstep::emulation::bugs {
namespace {

using namespace comm::ring::cuda;

constexpr int ranks = 3;
constexpr std::int64_t count = 700;
constexpr int turns = 2;
constexpr Shape shape = {.channels = 1, .threads = 32, .slot_bytes = 256, .packs = 8};

struct RelaxedSignal : Protocol {
  __device__ static void signal(std::uint64_t* counter, std::uint64_t value) {
    device::store_relaxed(counter, value);
  }
};
struct NoSignal : Protocol {
  __device__ static void signal(std::uint64_t*, std::uint64_t) {}
};
struct WaitShort : Protocol {
  static constexpr std::uint64_t wait_short_by = 1;
};
struct NoRoom : Protocol {
  static constexpr bool wait_for_room = false;
};
struct NoHandshake : Protocol {
  static constexpr bool exit_handshake = false;
};

// As all_reduce is launched, over and over. Once its kernel is done a rank uses the memory that its
// neighbour read for something else, as one would that has freed it.
template <class P>
bool run_rank(comm::Group& group) {
  const int rank = group.rank();
  device::CudaStream stream(on_device(rank), device::StreamPriority::high, "ring");
  const auto deadline = device::Clock::now() + std::chrono::seconds(20);
  comm::PeerMemory peers(group, on_device(rank), deadline);
  const std::shared_ptr<Control> control = make_control(on_device(rank));
  const RankWorld ground(rank, ranks, stream, peers, shape, *control, std::chrono::seconds(2),
                         deadline);
  const DeviceArray<float> data(rank, count);
  const std::vector<float> ones(count, 1.0f);
  bool right = true;
  for (int turn = 0; turn < turns; ++turn) {
    cudaMemcpyAsync(data.data(), ones.data(), count * sizeof(float), cudaMemcpyDefault,
                    stream.native());
    const Call call{{.count = count,
                     .kind = comm::CollectiveKind::all_reduce,
                     .dtype = DType::float32,
                     .op = comm::ReduceOp::sum},
                    data.data(),
                    nullptr,
                    count};
    device::launch(stream, {1, shape.threads}, ring_kernel<float, P>, ground.world(), call,
                   ground.plan_for(call));
    std::byte* const own_slots = ground.own_memory() + ground.world().layout.slots_offset();
    cudaMemsetAsync(own_slots, 0xFF, slots * shape.slot_bytes, stream.native());
    right = all_are(data.values(stream), static_cast<float>(ranks)) && right;
  }
  peers.least(0, deadline + std::chrono::seconds(20));
  return right && control->outcome == 0;
}

template <class P>
bool run_ring() {
  auto groups = comm::make_thread_groups(ranks);
  std::vector<std::thread> threads;
  std::vector<char> right(ranks);
  for (const auto& group : groups) {
    threads.emplace_back([&, rank = static_cast<std::size_t>(group->rank())] {
      try {
        right[rank] = run_rank<P>(*group);
      } catch (const std::exception&) {  // the machine has failed, or a peer has
        group->abort(group->rank(), "failed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::count(right.begin(), right.end(), 1) == ranks;
}

template <class P>
bool ring(bool with_bug) {
  return with_bug ? run_ring<P>() : run_ring<Protocol>();
}

// GPUs that cannot reach each other are refused on every rank.
bool ring_without_access(bool with_bug) {
  auto groups = comm::make_thread_groups(2);
  std::vector<std::thread> threads;
  std::atomic<int> refused = 0;
  for (const auto& group : groups) {
    threads.emplace_back([&] {
      try {
        comm::PeerMemory(*group, on_device(with_bug ? group->rank() : 0),
                         device::Clock::now() + std::chrono::seconds(20));
      } catch (const StartupError&) {
        ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return refused == 0;
}

}  // namespace

const std::vector<Bug>& ring_bugs() {
  const MachineOptions loaded{.devices = ranks, .lazy_loading = false};
  MachineOptions apart = loaded;
  apart.peer_access = false;
  static const std::vector<Bug> bugs{{"ring_relaxed_signal", ring<RelaxedSignal>, loaded},
                                     {"ring_no_signal", ring<NoSignal>, loaded},
                                     {"ring_off_by_one_wait", ring<WaitShort>, loaded},
                                     {"ring_overwrites_slots", ring<NoRoom>, loaded},
                                     {"ring_no_exit_handshake", ring<NoHandshake>, loaded},
                                     {"ring_without_access", ring_without_access, apart}};
  return bugs;
}

}  // namespace lockstep::emulation::bugs

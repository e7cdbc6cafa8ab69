#include "comm/memory/cuda/peer_memory.h"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <thread>

#include "framework/base/error.h"
#include "framework/device/allocator.h"
#include "framework/device/cuda/cuda_memory.h"
#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::comm {
namespace {

using device::check_cuda;
using device::CudaPlace;

// How long a rank waits for other processes to let go of its memory.
constexpr std::chrono::seconds longest_farewell{10};

// Zeroed before this returns, whatever stream looks at it first.
std::shared_ptr<void> allocate_block(const CudaPlace& place, std::size_t bytes) {
  const auto memory = std::make_shared<device::CudaDeviceMemory>(place);
  std::shared_ptr<void> block(memory->allocate(bytes),
                              [memory, bytes](void* p) { memory->deallocate(p, bytes); });
  device::CudaStream stream(place, device::StreamPriority::normal, "zero");
  check_cuda(cudaMemsetAsync(block.get(), 0, bytes, stream.native()), "cudaMemsetAsync", place);
  stream.synchronize();
  return block;
}

// The GPU of this process with that bus id, -1 where the process may not use it.
int find_device(const char* bus_id) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return -1;
  for (int index = 0; index < count; ++index) {
    std::array<char, 32> id{};
    if (cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), index) == cudaSuccess &&
        std::strcmp(id.data(), bus_id) == 0) {
      return index;
    }
  }
  return -1;
}

std::size_t seats_offset(int ranks) {
  return device::align_up(Barrier::bytes(ranks), 64);
}

}  // namespace

// What one rank holds of an allocation between processes: its own block, and the others', opened.
// `users` has a counter for each rank, in memory of all: who has that rank's block open.
class PeerMemory::Imports {
 public:
  Imports(int rank, int ranks, std::shared_ptr<void> own, std::shared_ptr<SymmetricBuffer> users)
      : rank_(rank), own_(std::move(own)), users_(std::move(users)) {
    opened_.resize(static_cast<std::size_t>(ranks));
  }

  ~Imports() {
    for (std::size_t r = 0; r < opened_.size(); ++r) {
      if (!opened_[r]) continue;
      opened_[r].reset();
      users(static_cast<int>(r)).fetch_sub(1, std::memory_order_release);
    }
    const auto deadline = device::Clock::now() + longest_farewell;
    while (users(rank_).load(std::memory_order_acquire) > 0) {
      if (device::Clock::now() >= deadline) {
        // Freed under a peer that reads it, it would end that peer's process.
        static_cast<void>(new (std::nothrow) std::shared_ptr<void>(std::move(own_)));
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  Imports(const Imports&) = delete;
  Imports& operator=(const Imports&) = delete;

  void* open(int rank, const device::MemoryHandle& handle, const CudaPlace& place) {
    auto& opened = opened_[static_cast<std::size_t>(rank)];
    opened = std::make_unique<device::ImportedMemory>(handle, place);
    users(rank).fetch_add(1, std::memory_order_relaxed);
    return opened->data();
  }

 private:
  std::atomic_ref<std::uint64_t> users(int rank) const {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(users_->part(0).data())[rank]);
  }

  int rank_;
  std::shared_ptr<void> own_;
  std::shared_ptr<SymmetricBuffer> users_;
  std::vector<std::unique_ptr<device::ImportedMemory>> opened_;
};

PeerMemory::PeerMemory(Group& group, const CudaPlace& place, device::Deadline deadline,
                       Sharing sharing)
    : group_(group),
      place_(place),
      sharing_(sharing),
      memory_(group.allocate(
          seats_offset(group.size()) + sizeof(Seat) * static_cast<std::size_t>(group.size()),
          deadline)),
      barrier_(group, memory_->part(0)) {
  Seat& own = seat(group.rank());
  own = Seat();
  own.process = getpid();
  own.device = place.device;
  check_cuda(
      cudaDeviceGetPCIBusId(own.bus_id.data(), static_cast<int>(own.bus_id.size()), place.device),
      "cudaDeviceGetPCIBusId", place);
  meet(deadline);
  open_access();
  meet(deadline);
  require_reach();
}

PeerMemory::Seat& PeerMemory::seat(int rank) const {
  return reinterpret_cast<Seat*>(memory_->part(0).data() + seats_offset(group_.size()))[rank];
}

void PeerMemory::meet(device::Deadline deadline) {
  barrier_.arrive_and_wait(deadline, [](int rank) {
    return RankError(rank, fmt::format("rank {} did not come to share its GPU's memory", rank));
  });
}

device::PeerLink PeerMemory::slowest_link(device::Deadline deadline) {
  return static_cast<device::PeerLink>(-least(-static_cast<int>(slowest_link_), deadline));
}

bool PeerMemory::shares_addresses(int rank) const {
  return rank == group_.rank() ||
         (sharing_ == Sharing::by_process && seat(rank).process == seat(group_.rank()).process);
}

void PeerMemory::open_access() {
  Seat& own = seat(group_.rank());
  ranks_on_this_device_ = 0;
  for (int rank = 0; rank < group_.size(); ++rank) {
    const Seat& other = seat(rank);
    if (other.bus_id == own.bus_id) {
      ++ranks_on_this_device_;
      continue;
    }
    // A GPU that this process may not use can't be asked about: opening its memory will tell.
    const int peer = find_device(other.bus_id.data());
    slowest_link_ = std::max(
        slowest_link_, peer < 0 ? device::PeerLink::pcie : device::peer_link(place_.device, peer));
    if (peer < 0) continue;
    if (!device::can_reach_peer(place_.device, peer)) {
      if (own.unreachable < 0) own.unreachable = rank;
    } else if (shares_addresses(rank)) {
      // It makes a context on the peer's GPU, which memory of another process can do without.
      device::enable_peer_access(place_, peer);
    }
  }
}

void PeerMemory::require_reach() const {
  for (int from = 0; from < group_.size(); ++from) {
    const int to = seat(from).unreachable;
    if (to < 0) continue;
    throw StartupError(fmt::format(
        "backend ring: the GPU of rank {} (cuda:{}, {}) cannot address the memory of that of "
        "rank {} (cuda:{}, {}); the backend nccl goes through the host there",
        from, seat(from).device, seat(from).bus_id.data(), to, seat(to).device,
        seat(to).bus_id.data()));
  }
}

void PeerMemory::require_room() const {
  for (int rank = 0; rank < group_.size(); ++rank) {
    const Seat& other = seat(rank);
    if (other.number != seat(0).number) {
      throw RankError(rank, fmt::format("rank {} allocates {} bytes that peers address where rank "
                                        "0 allocates {}",
                                        rank, other.number, seat(0).number));
    }
    if (other.failure.front() != '\0') throw StartupError(other.failure.data());
  }
}

std::shared_ptr<SymmetricBuffer> PeerMemory::allocate(std::size_t bytes,
                                                      device::Deadline deadline) {
  const int ranks = group_.size();
  // Counts users of blocks between processes.
  auto users = group_.allocate(sizeof(std::uint64_t) * static_cast<std::size_t>(ranks), deadline);
  Seat& own = seat(group_.rank());
  own.number = static_cast<std::int64_t>(bytes);
  own.failure = {};
  try {
    offered_ = allocate_block(place_, std::max<std::size_t>(bytes, 1));
    own.block = &offered_;
    own.handle = {};
    for (int rank = 0; rank < ranks; ++rank) {
      if (!shares_addresses(rank)) own.handle = device::export_memory(offered_.get(), place_);
    }
  } catch (const std::bad_alloc&) {
    const std::string text =
        fmt::format("rank {}: cuda:{} has no room for {} bytes that peers address", group_.rank(),
                    place_.device, bytes);
    text.copy(own.failure.data(), own.failure.size() - 1);
  }
  meet(deadline);
  require_room();
  auto imports = std::make_shared<Imports>(group_.rank(), ranks, offered_, std::move(users));
  auto owners = std::make_shared<std::vector<std::shared_ptr<void>>>();
  std::vector<std::span<std::byte>> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    void* address = nullptr;
    if (shares_addresses(rank)) {
      owners->push_back(*seat(rank).block);
      address = owners->back().get();
    } else {
      address = imports->open(rank, seat(rank).handle, place_);
    }
    parts.emplace_back(static_cast<std::byte*>(address), bytes);
  }
  owners->push_back(std::move(imports));
  meet(deadline);  // all have taken what they need
  offered_.reset();
  return std::make_shared<SymmetricBuffer>(group_.rank(), std::move(parts), std::move(owners));
}

int PeerMemory::least(int value, device::Deadline deadline) {
  seat(group_.rank()).number = value;
  meet(deadline);
  std::int64_t smallest = value;
  for (int rank = 0; rank < group_.size(); ++rank) {
    smallest = std::min(smallest, seat(rank).number);
  }
  meet(deadline);
  return static_cast<int>(smallest);
}

}  // namespace lockstep::comm

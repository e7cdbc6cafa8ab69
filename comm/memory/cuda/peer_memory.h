// Device memory that the GPUs of all ranks of a host address.
//
// Ranks may be threads of one process (plain addresses and peer access; several ranks may share a
// GPU) or processes (CUDA IPC). Memory is plain cudaMalloc, which can be exported, one block for
// each call: slow, for the start of a run.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/memory/barrier.h"
#include "comm/memory/group.h"
#include "framework/device/cuda/cuda_error.h"
#include "framework/device/cuda/cuda_peer.h"

namespace lockstep::comm {

// How a rank's memory gets to the others. `handles` between threads of one process is something
// that only the emulation can do.
enum class Sharing : std::uint8_t { by_process, handles };

// Used by one thread of its rank; all calls but the plain looks are collective.
class PeerMemory {
 public:
  // Lets this rank's GPU address those of all ranks. Throws StartupError, on every rank, naming two
  // whose GPUs can't; RankError for a rank that does not come before the deadline.
  PeerMemory(Group& group, const device::CudaPlace& place, device::Deadline deadline,
             Sharing sharing = Sharing::by_process);

  // Zeroed, `bytes` on every rank (RankError where they differ), aligned to 256; StartupError on
  // every rank where one's GPU has no room. It may outlive this object. Each rank's block goes when
  // all ranks have let go of it: within a process, with the last buffer; between processes the
  // owner waits for the others, 10 s at most, and leaves its block to the end of the process then.
  std::shared_ptr<SymmetricBuffer> allocate(std::size_t bytes, device::Deadline deadline);

  // The smallest that a rank gives; the same on all ranks.
  int least(int value, device::Deadline deadline);

  // Of those that join the ranks' GPUs; the same on all ranks.
  device::PeerLink slowest_link(device::Deadline deadline);

  // Ranks on the GPU of this one, itself included.
  int ranks_on_this_device() const { return ranks_on_this_device_; }

 private:
  class Imports;

  // What a rank shows the others, in memory of the host.
  struct alignas(64) Seat {
    std::int64_t process = 0;
    std::int32_t device = 0;
    std::int32_t unreachable = -1;    // a rank whose GPU this one's can't address; -1 for none
    std::array<char, 32> bus_id{};    // of the GPU, the same in every process
    std::int64_t number = 0;          // bytes to allocate, or least()'s value
    std::array<char, 200> failure{};  // why this rank can't; empty for nothing
    const std::shared_ptr<void>* block = nullptr;  // to ranks of the same process
    device::MemoryHandle handle{};                 // to others
  };

  Seat& seat(int rank) const;
  void meet(device::Deadline deadline);
  bool shares_addresses(int rank) const;
  void open_access();
  void require_reach() const;
  void require_room() const;

  Group& group_;
  device::CudaPlace place_;
  Sharing sharing_;
  std::shared_ptr<SymmetricBuffer> memory_;  // the barrier, then the seats, in rank 0's part
  Barrier barrier_;
  std::shared_ptr<void> offered_;
  int ranks_on_this_device_ = 1;
  device::PeerLink slowest_link_ = device::PeerLink::none;  // of this rank's
};

}  // namespace lockstep::comm

// RankWorld: what the kernels of one rank stand on. Memory that all ranks address, and tables that
// say where it is and what a rank's part in each ring is.
#pragma once

#include <memory>
#include <vector>

#include "comm/memory/cuda/peer_memory.h"
#include "comm/ring/cuda/world.h"
#include "framework/device/buffer.h"
#include "framework/device/cuda/cuda_memory.h"
#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::comm::ring::cuda {

class RankWorld {
 public:
  // Collective. The world has as many of the shape's channels as every rank has room for beside the
  // other ranks of its GPU: their blocks wait for each other, so all must run at a time. Throws
  // StartupError where there is room for none, or for too many ranks, UsageError for a shape that
  // the kernels can't have. `control` outlives this object.
  RankWorld(int rank, int size, const device::CudaStream& stream, PeerMemory& peers,
            const Shape& shape, Control& control, std::chrono::milliseconds timeout,
            device::Deadline deadline);

  const World& world() const { return world_; }
  // Words that kernels launched from now on raise when they fail.
  void set_raised(std::int32_t* words, int count) {
    world_.raised = words;
    world_.raised_count = count;
  }
  // This rank's channels.
  std::byte* own_memory() const { return channels_->local().data(); }
  const Shape& shape() const { return world_.layout.shape; }

  RingPlan plan_for(const Call& call) const;
  // How many channels share so many tasks.
  int channels_for(std::int64_t tasks) const;

 private:
  int size() const { return world_.layout.ranks; }
  void require_valid(const Shape& shape) const;
  int coresident_channels(const device::CudaStream& stream, PeerMemory& peers, const Shape& shape,
                          device::Deadline deadline) const;
  void upload_tables(const device::CudaStream& stream);

  device::CudaDeviceMemory device_memory_;
  World world_;
  std::shared_ptr<SymmetricBuffer> channels_;
  device::Buffer words_;  // of which the world has `failed` and `marks`
  device::Buffer tables_;
  // all_reduce, reduce_scatter, all_gather, then broadcast and reduce by their roots.
  std::vector<RingPlan> plans_;
};

// A control word in page-locked memory, for as long as somebody has it.
std::shared_ptr<Control> make_control(const device::CudaPlace& place);

}  // namespace lockstep::comm::ring::cuda

// Reaching the memory of other GPUs: peers of this process, and memory of other processes.
#pragma once

#include <array>
#include <cstddef>

#include "framework/device/cuda/cuda_error.h"
#include "framework/device/cuda/peer_link.h"

namespace lockstep::device {

// Whether `device` can address the memory of `peer` directly; true for itself.
bool can_reach_peer(int device, int peer);
// What kernels on `device` reach `peer` over. NVLink is known by its atomic operations, which PCIe
// has none of (cudaDevP2PAttrNativeAtomicSupported).
PeerLink peer_link(int device, int peer);
// Lets kernels on `place.device` address the memory of `peer`; without effect where they do
// already. Throws CudaError where it can't be.
void enable_peer_access(const CudaPlace& place, int peer);

// A name of device memory that another process can open; plain bytes, to be sent over a socket or a
// store. It names a whole block as cudaMalloc gave it, and is valid while the block is allocated.
using MemoryHandle = std::array<std::byte, 64>;
MemoryHandle export_memory(const void* block, const CudaPlace& place);

// Memory of another process, open in this one for as long as the object lives. The exporter keeps
// the block at least as long.
class ImportedMemory {
 public:
  // For kernels on `place.device`, which is given access to the exporter's device.
  ImportedMemory(const MemoryHandle& handle, const CudaPlace& place);
  ~ImportedMemory();
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;

  void* data() const { return data_; }

 private:
  CudaPlace place_;
  void* data_ = nullptr;
};

}  // namespace lockstep::device

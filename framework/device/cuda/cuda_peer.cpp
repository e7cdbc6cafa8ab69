#include "framework/device/cuda/cuda_peer.h"

#include <cuda_runtime.h>

#include <cstring>
#include <tuple>

namespace lockstep::device {

static_assert(sizeof(cudaIpcMemHandle_t) == std::tuple_size_v<MemoryHandle>);

bool can_reach_peer(int device, int peer) {
  if (device == peer) return true;
  int can = 0;
  check_cuda(cudaDeviceCanAccessPeer(&can, device, peer), "cudaDeviceCanAccessPeer",
             {.device = device});
  return can != 0;
}

PeerLink peer_link(int device, int peer) {
  if (device == peer) return PeerLink::none;
  int atomics = 0;
  check_cuda(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, device, peer),
             "cudaDeviceGetP2PAttribute", {.device = device});
  return atomics != 0 ? PeerLink::nvlink : PeerLink::pcie;
}

void enable_peer_access(const CudaPlace& place, int peer) {
  if (place.device == peer) return;
  check_cuda(cudaSetDevice(place.device), "cudaSetDevice", place);
  const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();  // or a later launch would be blamed for it
    return;
  }
  check_cuda(status, "cudaDeviceEnablePeerAccess", place);
}

MemoryHandle export_memory(const void* block, const CudaPlace& place) {
  check_cuda(cudaSetDevice(place.device), "cudaSetDevice", place);
  cudaIpcMemHandle_t handle;
  check_cuda(cudaIpcGetMemHandle(&handle, const_cast<void*>(block)), "cudaIpcGetMemHandle", place);
  MemoryHandle bytes;
  std::memcpy(bytes.data(), &handle, bytes.size());
  return bytes;
}

ImportedMemory::ImportedMemory(const MemoryHandle& handle, const CudaPlace& place) : place_(place) {
  check_cuda(cudaSetDevice(place.device), "cudaSetDevice", place);
  cudaIpcMemHandle_t native;
  std::memcpy(&native, handle.data(), handle.size());
  check_cuda(cudaIpcOpenMemHandle(&data_, native, cudaIpcMemLazyEnablePeerAccess),
             "cudaIpcOpenMemHandle", place);
}

ImportedMemory::~ImportedMemory() {
  cudaSetDevice(place_.device);
  cudaIpcCloseMemHandle(data_);
}

}  // namespace lockstep::device

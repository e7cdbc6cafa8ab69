// The CUDA runtime API, as far as this project uses it, for the emulated GPUs. Names, types and
// meaning are those of the toolkit's documentation; where the emulation is stricter, the comment
// says so. Left out on purpose: everything that works on the legacy default stream (cudaMemcpy and
// its like), since streams of ours do not wait for it.
#pragma once

#include <cstddef>
#include <memory>
#include <tuple>
#include <utility>

#include "tests/emulation/kernel_interface.h"
#include "tests/emulation/runtime_types.h"

// --- Errors
const char* cudaGetErrorName(cudaError_t status);
// After a fault that the emulation found: its report. All further calls give that error too.
const char* cudaGetErrorString(cudaError_t status);
// The error of the calling thread's last call that had one; forgets it.
cudaError_t cudaGetLastError();

// --- Devices
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device);
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int device,
                                      int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceDisablePeerAccess(int peer);

// --- Streams and events
// Non-blocking streams only.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
// Waits for what the stream still holds.
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
// Waiting for an event that was never recorded is a fault here.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
// In virtual time.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

// --- Graphs
// The thread that captures may neither wait for anything on the host nor allocate or free, where
// the real API lets some of that pass.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

// --- Memory
cudaError_t cudaMalloc(void** pointer, std::size_t bytes);
// Waits for the device, as the real one does.
cudaError_t cudaFree(void* pointer);
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* pointer);
// Memory of the host that is not page-locked is copied before this returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer);
// Within one process here, where the real ones work between processes only.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer);
cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void* pointer);

// --- Kernels
namespace lockstep::emulation {

template <class... Parameters>
class KernelCallOf final : public KernelCall {
 public:
  template <class... Arguments>
  explicit KernelCallOf(void (*kernel)(Parameters...), Arguments&&... arguments)
      : kernel_(kernel), arguments_(std::forward<Arguments>(arguments)...) {}
  void run() const override { std::apply(kernel_, arguments_); }

 private:
  void (*kernel_)(Parameters...);
  std::tuple<Parameters...> arguments_;
};

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::unique_ptr<const KernelCall> call);
cudaError_t attributes_of(cudaFuncAttributes* attributes, const void* kernel);
cudaError_t blocks_per_multiprocessor(int* blocks, int threads, std::size_t shared_bytes);

// For stand-ins of libraries that compute on a stream (cuBLAS, NCCL): `call` runs once, in the
// stream's order, on a thread of the host. `name` is for reports.
cudaError_t enqueue_task(cudaStream_t stream, const char* name,
                         std::unique_ptr<const KernelCall> call);

}  // namespace lockstep::emulation

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return lockstep::emulation::launch(
      *config, reinterpret_cast<const void*>(kernel),
      std::make_unique<lockstep::emulation::KernelCallOf<Parameters...>>(
          kernel, std::forward<Arguments>(arguments)...));
}
template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Parameters...)) {
  return lockstep::emulation::attributes_of(attributes, reinterpret_cast<const void*>(kernel));
}
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*)(Parameters...),
                                                          int threads, std::size_t shared_bytes) {
  return lockstep::emulation::blocks_per_multiprocessor(blocks, threads, shared_bytes);
}

// GPUs as devices. Needs no header of CUDA; in a build without a toolkit the same functions say
// that there is no device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "framework/device/context.h"

namespace lockstep::device {

// Sets what CUDA reads from the environment when it is first used, unless the user has set it:
// enough hardware queues that a kernel that waits never stands before the one it waits for, and all
// kernels loaded at start instead of in the middle of a collective. Called once, before any other
// thread is started and before anything else here.
void prepare_cuda_process();

struct CudaDevices {
  int count = 0;
  std::string reason;  // why there are none; empty otherwise

  // Ranks take them in turns. Where there are none a rank has the first, which says so when asked.
  int of_rank(int rank) const { return count > 0 ? rank % count : 0; }
  std::vector<int> of_ranks(int ranks) const {  // together
    std::vector<int> devices(static_cast<std::size_t>(std::min(count, ranks)));
    std::iota(devices.begin(), devices.end(), 0);
    return devices;
  }
};

// The GPUs that this process may use (CUDA_VISIBLE_DEVICES counts). Initialises none of them. Never
// throws: no driver, an old driver and no toolkit at build time are reasons.
CudaDevices cuda_devices();

struct CudaDeviceDescription {
  std::string name;  // "NVIDIA H100 80GB HBM3"
  std::size_t memory_bytes = 0;
  int multiprocessors = 0;
  int compute_major = 0, compute_minor = 0;
};
CudaDeviceDescription describe_cuda_device(int index);

// The world of rank `rank` on GPU `index`: a caching allocator on plain device memory, a compute
// stream, further streams of high priority (they carry communication and copies, which must not
// wait for room behind the compute stream's blocks). Only this GPU is initialised. Memory goes back
// to the cache when its buffer goes and may be handed out again at once: the next user is ordered
// after the last one by the compute stream, and whoever uses a buffer on another stream makes the
// compute stream wait for that before the buffer goes. Throws StartupError where there is no such
// device.
std::unique_ptr<Context> make_cuda_context(int index, int rank);

}  // namespace lockstep::device

// Named ranges in the timeline of NVIDIA's profilers. Without the toolkit's NVTX header, and in the
// emulation, they cost and show nothing.
#pragma once

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define LOCKSTEP_HAS_NVTX
#endif

namespace lockstep::device {

// From construction to destruction, on the calling thread; ranges nest.
class CudaRange {
 public:
  explicit CudaRange([[maybe_unused]] const char* name) {
#ifdef LOCKSTEP_HAS_NVTX
    nvtxRangePushA(name);
#endif
  }
  ~CudaRange() {
#ifdef LOCKSTEP_HAS_NVTX
    nvtxRangePop();
#endif
  }
  CudaRange(const CudaRange&) = delete;
  CudaRange& operator=(const CudaRange&) = delete;
};

}  // namespace lockstep::device

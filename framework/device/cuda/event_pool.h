// Events for reuse, so that recording one in a steady step creates none.
#pragma once

#include <cuda_runtime.h>

#include <mutex>
#include <vector>

#include "framework/device/cuda/cuda_error.h"

namespace lockstep::device {

// Thread-safe: the handles of events travel between threads and the last one gives the event back.
class EventPool {
 public:
  explicit EventPool(const CudaPlace& place) : place_(place) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Without timing. The pool's device must be current.
  cudaEvent_t take();
  void give_back(cudaEvent_t event) noexcept;
  const CudaPlace& place() const { return place_; }

 private:
  CudaPlace place_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;  // has capacity for all that were made
  std::size_t made_ = 0;
};

}  // namespace lockstep::device

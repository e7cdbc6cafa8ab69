// Capture of streams into a CUDA graph.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "framework/device/allocator.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/device/graph.h"

namespace lockstep::device {

// Is called after each launch of a graph with the launch's end.
using LaunchListener = std::function<void(const Event& end)>;

// A capture in progress, in the mode that leaves other threads alone. Used by one thread. Streams
// that take part know it (CudaStream::capture()). Destroyed before end(), it ends the capture and
// nothing has run.
class CudaCapture {
 public:
  // What is allocated from `memory` is reserved for the graph.
  CudaCapture(CudaStream& origin, std::span<Stream* const> others,
              std::span<CachingAllocator* const> memory);
  ~CudaCapture();
  CudaCapture(const CudaCapture&) = delete;
  CudaCapture& operator=(const CudaCapture&) = delete;

  // For who has to know of work that no call of its own enqueues: called for every launch, in the
  // order in which they were given, on the thread that launches.
  void on_launch(LaunchListener listener) { listeners_.push_back(std::move(listener)); }
  // Joins the streams.
  std::unique_ptr<Graph> end();

 private:
  struct DestroyGraph {
    void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  };
  struct Left {
    std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph> graph;  // null on an error
    cudaError_t status;
  };

  Left leave() noexcept;

  CudaStream& origin_;
  std::vector<CudaStream*> others_;
  std::vector<std::unique_ptr<Reservation>> memory_;
  std::vector<LaunchListener> listeners_;
  bool open_ = false;
};

}  // namespace lockstep::device

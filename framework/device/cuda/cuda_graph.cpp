#include "framework/device/cuda/cuda_graph.h"

#include <utility>

namespace lockstep::device {
namespace {

class CudaGraph final : public Graph {
 public:
  CudaGraph(CudaStream& stream, cudaGraph_t graph, std::vector<std::unique_ptr<Reservation>> memory,
            std::vector<LaunchListener> listeners)
      : stream_(stream), memory_(std::move(memory)), listeners_(std::move(listeners)) {
    check_cuda(cudaGraphInstantiate(&executable_, graph, cudaGraphInstantiateFlagUseNodePriority),
               "cudaGraphInstantiate", stream_.place());
  }
  ~CudaGraph() override {
    try {
      end_.wait();
    } catch (const Error&) {  // a failure of the device shows at the next call of its users
    }
    cudaGraphExecDestroy(executable_);
  }

  // So that the first launch costs what the others do.
  void upload() {
    check_cuda(cudaGraphUpload(executable_, stream_.native()), "cudaGraphUpload", stream_.place());
  }

  Event launch() override {
    stream_.activate();
    check_cuda(cudaGraphLaunch(executable_, stream_.native()), "cudaGraphLaunch", stream_.place());
    end_ = stream_.record();
    for (const LaunchListener& listener : listeners_) listener(end_);
    return end_;
  }

 private:
  CudaStream& stream_;
  std::vector<std::unique_ptr<Reservation>> memory_;
  std::vector<LaunchListener> listeners_;
  cudaGraphExec_t executable_ = nullptr;
  Event end_;
};

}  // namespace

CudaCapture::CudaCapture(CudaStream& origin, std::span<Stream* const> others,
                         std::span<CachingAllocator* const> memory)
    : origin_(origin) {
  for (Stream* const stream : others) others_.push_back(&cuda_stream(*stream));
  for (CachingAllocator* const allocator : memory)
    memory_.push_back(std::make_unique<Reservation>(*allocator));
  origin_.activate();
  check_cuda(cudaStreamBeginCapture(origin_.native(), cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture", origin_.place());
  open_ = true;
  origin_.take_part_in(this);
  for (CudaStream* const stream : others_) stream->take_part_in(this);
  try {
    const Event begin = origin_.record();
    for (CudaStream* const stream : others_) stream->wait(begin);
  } catch (...) {
    leave();
    throw;
  }
}

CudaCapture::~CudaCapture() {
  if (open_) leave();
}

CudaCapture::Left CudaCapture::leave() noexcept {
  open_ = false;
  origin_.take_part_in(nullptr);
  for (CudaStream* const stream : others_) stream->take_part_in(nullptr);
  for (const auto& reservation : memory_) reservation->close();
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(origin_.native(), &graph);
  if (status != cudaSuccess) cudaGetLastError();  // or a later launch would be blamed for it
  return {decltype(Left::graph)(graph), status};
}

std::unique_ptr<Graph> CudaCapture::end() {
  for (CudaStream* const stream : others_) origin_.wait(stream->record());
  const Left left = leave();
  check_cuda(left.status, "cudaStreamEndCapture", origin_.place());
  auto made = std::make_unique<CudaGraph>(origin_, left.graph.get(), std::move(memory_),
                                          std::move(listeners_));
  made->upload();
  return made;
}

}  // namespace lockstep::device

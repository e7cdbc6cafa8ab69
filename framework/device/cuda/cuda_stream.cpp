#include "framework/device/cuda/cuda_stream.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "framework/base/spin.h"
#include "framework/device/cuda/event_pool.h"
#include "framework/device/graph.h"

namespace lockstep::device {
namespace {

// A wait with a deadline polls: first hard, since most waits are short, then at intervals that cost
// little time on a core that other ranks may want.
constexpr int spin_rounds = 1000;
constexpr std::chrono::microseconds poll_interval{20};

class CudaEventState final : public EventState {
 public:
  CudaEventState(std::shared_ptr<EventPool> pool, const CudaStream& stream)
      : pool_(std::move(pool)), event_(pool_->take()), captured_(stream.capture() != nullptr) {
    const cudaError_t status = cudaEventRecord(event_, stream.native());
    if (status == cudaSuccess) return;
    pool_->give_back(event_);
    check_cuda(status, "cudaEventRecord", pool_->place());
  }
  ~CudaEventState() override { pool_->give_back(event_); }
  CudaEventState(const CudaEventState&) = delete;
  CudaEventState& operator=(const CudaEventState&) = delete;

  bool done() const override {
    require_uncaptured();
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    check_cuda(status, "cudaEventQuery", pool_->place());
    return true;
  }

  bool wait_until(Deadline deadline) const override {
    if (deadline == Deadline::max()) {
      require_uncaptured();
      check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize", pool_->place());
      return true;
    }
    if (base::spin_until([this] { return done(); }, spin_rounds)) return true;
    while (!done()) {
      if (Clock::now() >= deadline) return done();
      std::this_thread::sleep_for(poll_interval);
    }
    return true;
  }

  cudaEvent_t native() const { return event_; }
  bool captured() const { return captured_; }

 private:
  void require_uncaptured() const {
    if (captured_)
      throw CaptureError("the host asked for an event that is captured, and so never comes to be");
  }

  std::shared_ptr<EventPool> pool_;
  cudaEvent_t event_;
  bool captured_;
};

}  // namespace

CudaStream::CudaStream(const CudaPlace& place, StreamPriority priority, const std::string& name)
    : place_(place), name_(name), events_(std::make_shared<EventPool>(place)) {
  activate();
  int lowest = 0;
  int highest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
             "cudaDeviceGetStreamPriorityRange", place_);
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                          priority == StreamPriority::high ? highest : lowest),
             "cudaStreamCreateWithPriority", place_);
}

CudaStream::~CudaStream() {
  // Neither can be reported from here; a failure of the device shows at the next call of its users.
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void CudaStream::activate() const {
  check_cuda(cudaSetDevice(place_.device), "cudaSetDevice", place_);
}

void CudaStream::enqueue(std::function<void()> task) {
  activate();
  task();
}

Event CudaStream::record() {
  activate();
  return Event(std::make_shared<CudaEventState>(events_, *this));
}

void CudaStream::wait(const Event& event) {
  if (const auto* state = dynamic_cast<const CudaEventState*>(event.state())) {
    if (state->captured() != (capture_ != nullptr)) {
      throw CaptureError(
          fmt::format("stream {} of cuda:{} would wait for work {}", name_, place_.device,
                      state->captured() ? "that is captured, without taking part in the capture"
                                        : "outside of the capture that it takes part in"));
    }
    check_cuda(cudaStreamWaitEvent(stream_, state->native(), 0), "cudaStreamWaitEvent", place_);
  } else {
    event.wait();
  }
}

void CudaStream::synchronize() {
  if (capture_ != nullptr) {
    throw CaptureError(fmt::format(
        "the host would wait for stream {} of cuda:{}, which is captured", name_, place_.device));
  }
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize", place_);
}

CudaStream& cuda_stream(Stream& stream) {
  if (auto* const cuda = dynamic_cast<CudaStream*>(&stream)) return *cuda;
  throw UsageError("the stream is not one of a CUDA device");
}

}  // namespace lockstep::device

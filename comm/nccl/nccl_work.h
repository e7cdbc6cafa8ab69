// What the collectives of one NCCL communicator share: why it failed, and when it is.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <optional>

#include "comm/communicator.h"
#include "framework/device/cuda/cuda_error.h"

namespace lockstep::comm {

// The first failure. Thread-safe.
class NcclFailure {
 public:
  void set(const RankError& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
  std::optional<RankError> get() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<RankError> error_;
};

// A CUDA event that knows when it happened.
class TimingEvent {
 public:
  TimingEvent(const device::CudaPlace& place, cudaStream_t stream) {
    device::check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDefault),
                       "cudaEventCreateWithFlags", place);
    device::check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord", place);
  }
  ~TimingEvent() { cudaEventDestroy(event_); }
  TimingEvent(const TimingEvent&) = delete;
  TimingEvent& operator=(const TimingEvent&) = delete;
  cudaEvent_t native() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// An event and the host's time at which it happened: the zero of a stream's clock.
struct TimeOrigin {
  TimeOrigin(const device::CudaPlace& place, cudaStream_t stream) : event(place, stream) {
    device::check_cuda(cudaEventSynchronize(event.native()), "cudaEventSynchronize", place);
    time = device::Clock::now();
  }
  TimingEvent event;
  device::Clock::time_point time;
};

class NcclWork final : public Work::State {
 public:
  NcclWork(std::shared_ptr<const NcclFailure> failure) : failure_(std::move(failure)) {}

  Event event() const override { return done_; }
  void throw_if_failed() const override {
    if (const auto error = failure_->get()) throw *error;
  }
  Work::Times times() const override {
    if (!origin_) return {};
    return {when(*start_), when(*end_)};
  }

  // In this order, around what is enqueued.
  void begin(std::shared_ptr<const TimeOrigin> origin, const device::CudaPlace& place,
             cudaStream_t stream) {
    origin_ = std::move(origin);
    start_.emplace(place, stream);
  }
  void end(const device::CudaPlace& place, cudaStream_t stream, Event done) {
    end_.emplace(place, stream);
    done_ = std::move(done);
  }

 private:
  device::Clock::time_point when(const TimingEvent& event) const {
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, origin_->event.native(), event.native());
    return origin_->time + std::chrono::duration_cast<device::Clock::duration>(
                               std::chrono::duration<float, std::milli>(milliseconds));
  }

  std::shared_ptr<const NcclFailure> failure_;
  std::shared_ptr<const TimeOrigin> origin_;
  std::optional<TimingEvent> start_, end_;
  Event done_;
};

}  // namespace lockstep::comm

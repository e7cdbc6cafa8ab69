#include "tests/emulation/runtime_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::emulation {
namespace {

thread_local int this_threads_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

// All that a stream held when the wait began is done.
class StreamDone final : public Condition {
 public:
  StreamDone(const Stream& stream, const char* call)
      : stream_(stream), call_(call), target_(stream.enqueued) {}
  bool holds() const override { return stream_.completed >= target_; }
  std::string describe() const override {
    return fmt::format("{} operations of stream {} of device {}, in {}",
                       target_ - stream_.completed, stream_.number, stream_.device, call_);
  }

 private:
  const Stream& stream_;
  const char* call_;
  std::uint64_t target_;
};

// All that the streams of a device held when the wait began is done. Streams may go meanwhile.
class DeviceDone final : public Condition {
 public:
  DeviceDone(Devices& devices, int device, const char* call) : call_(call) {
    for (const auto& stream : devices.streams()) {
      if (stream->device != device) continue;
      streams_.push_back(
          {std::make_shared<EventRecord>(),
           fmt::format("stream {} of device {}, in {}", stream->number, device, call_)});
      devices.enqueue(*stream, {.record = streams_.back().end});
    }
  }
  bool holds() const override {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const auto& stream) { return stream.end->done; });
  }
  std::string describe() const override {
    std::string text;
    for (const auto& stream : streams_) {
      if (!stream.end->done) text += (text.empty() ? "" : "; ") + stream.text;
    }
    return text;
  }
  void acquire_all() const {
    for (const auto& stream : streams_) {
      for (const auto& order : stream.end->orders) acquire(order.get());
    }
  }

 private:
  struct Waited {
    std::shared_ptr<EventRecord> end;
    std::string text;
  };
  const char* call_;
  std::vector<Waited> streams_;
};

}  // namespace

int current_device() {
  return this_threads_device;
}

void set_current_device(int device) {
  this_threads_device = device;
}

cudaError_t status_of(const Report& report) {
  switch (report.fault) {
    case Fault::none:
      return cudaSuccess;
    case Fault::misaligned:
      return cudaErrorMisalignedAddress;
    case Fault::out_of_bounds:
      return cudaErrorIllegalAddress;
    case Fault::deadlock:
      return cudaErrorLaunchTimeout;
    case Fault::misuse:
      return cudaErrorInvalidValue;
    default:
      return cudaErrorLaunchFailure;
  }
}

RuntimeCall::RuntimeCall(bool may_give_way) : machine_(Machine::current()) {
  machine_.scheduler().enter();
  if (may_give_way) machine_.scheduler().step();
}

RuntimeCall::~RuntimeCall() {
  machine_.scheduler().leave();
}

cudaError_t RuntimeCall::usable() const {
  if (!machine_.options().driver) return fail(cudaErrorInsufficientDriver);
  if (machine_.options().devices == 0) return fail(cudaErrorNoDevice);
  if (machine_.failed()) return fail(status_of(machine_.report()));
  return cudaSuccess;
}

cudaError_t RuntimeCall::fail(cudaError_t status) const {
  last_error = status;
  return status;
}

cudaError_t RuntimeCall::misuse(const std::string& text) const {
  machine_.devices().report(Fault::misuse, text);
  return fail(cudaErrorInvalidValue);
}

Stream* RuntimeCall::stream(cudaStream_t handle, const char* call) const {
  const auto& streams = machine_.devices().streams();
  const auto found = std::find_if(streams.begin(), streams.end(),
                                  [&](const auto& stream) { return stream.get() == handle; });
  if (found != streams.end()) return found->get();
  misuse(fmt::format("{}: {} is not a stream{}", call, static_cast<const void*>(handle),
                     handle == nullptr ? "; the legacy default stream is not used here" : ""));
  return nullptr;
}

Event* RuntimeCall::event(cudaEvent_t handle, const char* call) const {
  if (machine_.events().contains(handle)) return handle;
  misuse(fmt::format("{}: {} is not an event", call, static_cast<const void*>(handle)));
  return nullptr;
}

cudaError_t RuntimeCall::wait_for(Stream& stream, const char* call) const {
  machine_.scheduler().wait(StreamDone(stream, call), never);
  for (const auto& order : stream.frontier) acquire(order.get());
  return usable();
}

cudaError_t RuntimeCall::wait_for_device(int device, const char* call) const {
  const DeviceDone done(machine_.devices(), device, call);
  machine_.scheduler().wait(done, never);
  done.acquire_all();
  return usable();
}

int RuntimeCall::context() const {
  machine_.note_context(this_threads_device);
  return this_threads_device;
}

cudaError_t RuntimeCall::end_capture(Capture& capture, cudaError_t status) const {
  capture.invalid = true;
  return fail(status);
}

cudaError_t RuntimeCall::outside_capture() const {
  for (const auto& stream : machine_.devices().streams()) {
    if (!stream->capture || stream->capture->relaxed) continue;
    if (stream->capture->thread != std::this_thread::get_id()) continue;
    return end_capture(*stream->capture, cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

cudaError_t RuntimeCall::may_wait_for(const Stream& stream) const {
  if (stream.capture) return end_capture(*stream.capture, cudaErrorStreamCaptureUnsupported);
  return outside_capture();
}

cudaError_t RuntimeCall::may_wait_for_device(int device) const {
  for (const auto& stream : machine_.devices().streams()) {
    if (stream->device != device || !stream->capture) continue;
    return end_capture(*stream->capture, cudaErrorStreamCaptureUnsupported);
  }
  return outside_capture();
}

cudaError_t RuntimeCall::may_enqueue(const Stream& stream) const {
  if (stream.capture && stream.capture->invalid) return fail(cudaErrorStreamCaptureInvalidated);
  return usable();
}

}  // namespace lockstep::emulation

using lockstep::emulation::Machine;

cudaError_t cudaGetLastError() {
  return std::exchange(lockstep::emulation::last_error, cudaSuccess);
}

const char* cudaGetErrorString(cudaError_t status) {
  const Machine* const machine = Machine::installed();
  if (machine != nullptr && machine->failed() && status == status_of(machine->report())) {
    return machine->report().text.c_str();
  }
  return cudaGetErrorName(status);
}

const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
#define NAME(error) \
  case error:       \
    return #error
    NAME(cudaSuccess);
    NAME(cudaErrorInvalidValue);
    NAME(cudaErrorMemoryAllocation);
    NAME(cudaErrorInvalidConfiguration);
    NAME(cudaErrorInsufficientDriver);
    NAME(cudaErrorNoDevice);
    NAME(cudaErrorInvalidDevice);
    NAME(cudaErrorPeerAccessUnsupported);
    NAME(cudaErrorInvalidResourceHandle);
    NAME(cudaErrorNotReady);
    NAME(cudaErrorIllegalAddress);
    NAME(cudaErrorLaunchOutOfResources);
    NAME(cudaErrorLaunchTimeout);
    NAME(cudaErrorPeerAccessAlreadyEnabled);
    NAME(cudaErrorPeerAccessNotEnabled);
    NAME(cudaErrorMisalignedAddress);
    NAME(cudaErrorLaunchFailure);
    NAME(cudaErrorCooperativeLaunchTooLarge);
    NAME(cudaErrorStreamCaptureUnsupported);
    NAME(cudaErrorStreamCaptureInvalidated);
    NAME(cudaErrorStreamCaptureUnmatched);
    NAME(cudaErrorStreamCaptureMerge);
    NAME(cudaErrorStreamCaptureUnjoined);
    NAME(cudaErrorStreamCaptureIsolation);
    NAME(cudaErrorStreamCaptureImplicit);
    NAME(cudaErrorCapturedEvent);
    NAME(cudaErrorStreamCaptureWrongThread);
    NAME(cudaErrorUnknown);
#undef NAME
  }
  return "an error the emulation does not know";
}

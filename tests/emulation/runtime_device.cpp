// Devices, streams and events of the runtime API.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/emulation/runtime_call.h"

using namespace lockstep::emulation;

namespace {

bool is_device(const RuntimeCall& call, int device) {
  return device >= 0 && device < call.machine().options().devices;
}

class EventDone final : public Condition {
 public:
  explicit EventDone(const EventRecord& record) : record_(record) {}
  bool holds() const override { return record_.done; }
  std::string describe() const override { return "an event"; }

 private:
  const EventRecord& record_;
};

// The stream takes part from here on.
cudaError_t join_capture(const RuntimeCall& call, Stream& stream, const Event& event) {
  Capture& capture = *event.capture;
  if (stream.capture && stream.capture != event.capture) {
    return call.end_capture(*stream.capture, capture.ended ? cudaErrorStreamCaptureIsolation
                                                           : cudaErrorStreamCaptureMerge);
  }
  if (capture.ended) return call.fail(cudaErrorCapturedEvent);
  if (!stream.capture) {
    stream.capture = event.capture;
    stream.captured.clear();
    capture.streams.push_back(&stream);
  }
  stream.captured.insert(stream.captured.end(), event.captured.begin(), event.captured.end());
  return cudaSuccess;
}

// The answer to a look at an event, or a wait for it.
cudaError_t may_wait_for(const RuntimeCall& call, Event& event) {
  if (!event.capture) return call.outside_capture();
  if (event.capture->ended) return call.fail(cudaErrorCapturedEvent);
  return call.end_capture(*event.capture, cudaErrorCapturedEvent);
}

}  // namespace

// --- Devices
// ------------------------------------------------------------------------------------------

cudaError_t cudaDriverGetVersion(int* version) {
  const RuntimeCall call(false);
  *version = call->options().driver ? CUDART_VERSION : 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const RuntimeCall call(false);
  if (const cudaError_t status = call.usable(); status != cudaSuccess) return status;
  *count = call->options().devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const RuntimeCall call(false);
  if (const cudaError_t status = call.usable(); status != cudaSuccess) return status;
  if (!is_device(call, device)) return call.fail(cudaErrorInvalidDevice);
  set_current_device(device);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const RuntimeCall call(false);
  if (const cudaError_t status = call.usable(); status != cudaSuccess) return status;
  if (!is_device(call, device)) return call.fail(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "emulated GPU");
  properties->totalGlobalMem = call->options().device_memory;
  properties->sharedMemPerBlock = call->options().limits.shared_bytes_per_block;
  properties->major = 9;
  properties->multiProcessorCount = call->options().limits.multiprocessors;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const RuntimeCall call(false);
  if (const cudaError_t status = call.usable(); status != cudaSuccess) return status;
  if (!is_device(call, device)) return call.fail(cudaErrorInvalidDevice);
  const DeviceLimits& limits = call->options().limits;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = static_cast<int>(limits.threads_per_block);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(limits.shared_bytes_per_block);
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = limits.multiprocessors;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = static_cast<int>(limits.each.threads);
      return cudaSuccess;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = static_cast<int>(limits.each.blocks);
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
  }
  return call.fail(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  const RuntimeCall call(false);
  if (!is_device(call, device)) return call.fail(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const RuntimeCall call;
  const int device = call.context();
  if (const cudaError_t status = call.may_wait_for_device(device); status != cudaSuccess) {
    return status;
  }
  return call.wait_for_device(device, "cudaDeviceSynchronize");
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  const RuntimeCall call(false);
  if (!is_device(call, device) || !is_device(call, peer)) return call.fail(cudaErrorInvalidDevice);
  *can = call->options().peer_access && device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int device, int peer) {
  const RuntimeCall call(false);
  if (!is_device(call, device) || !is_device(call, peer) || device == peer)
    return call.fail(cudaErrorInvalidDevice);
  *value = call->options().peer_access && call->options().nvlink ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  const RuntimeCall call;
  if (!is_device(call, peer) || peer == current_device()) return call.fail(cudaErrorInvalidDevice);
  if (!call->options().peer_access) return call.fail(cudaErrorPeerAccessUnsupported);
  const bool added = call->memory().set_peer_access(call.context(), peer, true);
  return added ? cudaSuccess : call.fail(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  const RuntimeCall call;
  if (!is_device(call, peer) || peer == current_device()) return call.fail(cudaErrorInvalidDevice);
  const bool removed = call->memory().set_peer_access(call.context(), peer, false);
  return removed ? cudaSuccess : call.fail(cudaErrorPeerAccessNotEnabled);
}

// --- Streams
// --------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  const RuntimeCall call;
  if (const cudaError_t status = call.usable(); status != cudaSuccess) return status;
  if ((flags & cudaStreamNonBlocking) == 0) {
    return call.misuse("cudaStreamCreateWithPriority without cudaStreamNonBlocking");
  }
  *stream = static_cast<cudaStream_t>(&call->devices().add_stream(call.context(), priority));
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const RuntimeCall call;
  Stream* const stream = call.stream(handle, "cudaStreamDestroy");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture) return call.misuse("cudaStreamDestroy of a stream that is captured");
  const cudaError_t status = call.wait_for(*stream, "cudaStreamDestroy");
  call->devices().remove_stream(*stream);
  return status;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const RuntimeCall call;
  Stream* const stream = call.stream(handle, "cudaStreamSynchronize");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t status = call.may_wait_for(*stream); status != cudaSuccess) return status;
  return call.wait_for(*stream, "cudaStreamSynchronize");
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const RuntimeCall call;
  Stream* const stream = call.stream(handle, "cudaStreamQuery");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t status = call.may_wait_for(*stream); status != cudaSuccess) return status;
  if (stream->completed != stream->enqueued) {
    call->scheduler().give_way();
    const cudaError_t status = call.usable();
    return status == cudaSuccess ? cudaErrorNotReady : status;
  }
  return call.wait_for(*stream, "cudaStreamQuery");
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t event_handle, unsigned) {
  const RuntimeCall call;
  Stream* const stream = call.stream(stream_handle, "cudaStreamWaitEvent");
  Event* const event = call.event(event_handle, "cudaStreamWaitEvent");
  if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t status = call.may_enqueue(*stream); status != cudaSuccess) return status;
  if (event->capture) return join_capture(call, *stream, *event);
  if (!event->record) {
    return call.misuse(
        "cudaStreamWaitEvent: the event was never recorded, so nothing is waited for");
  }
  if (stream->capture) return call.end_capture(*stream->capture, cudaErrorStreamCaptureIsolation);
  call->devices().enqueue(*stream, {.wait = event->record});
  return cudaSuccess;
}

// --- Events
// -----------------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const RuntimeCall call(false);
  if (const cudaError_t status = call.usable(); status != cudaSuccess) return status;
  *event = new CUevent_st;
  (*event)->device = call.context();
  (*event)->timing = (flags & cudaEventDisableTiming) == 0;
  call->events().insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const RuntimeCall call(false);
  if (call.event(handle, "cudaEventDestroy") == nullptr) return cudaErrorInvalidResourceHandle;
  call->events().erase(handle);
  delete handle;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event_handle, cudaStream_t stream_handle) {
  const RuntimeCall call;
  Event* const event = call.event(event_handle, "cudaEventRecord");
  Stream* const stream = call.stream(stream_handle, "cudaEventRecord");
  if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t status = call.may_enqueue(*stream); status != cudaSuccess) return status;
  if (event->device != stream->device) {
    return call.misuse(fmt::format("cudaEventRecord: the event is of device {}, the stream of {}",
                                   event->device, stream->device));
  }
  event->capture = stream->capture;
  event->captured = stream->captured;
  if (stream->capture) return cudaSuccess;
  event->record = std::make_shared<EventRecord>();
  call->devices().enqueue(*stream, {.record = event->record});
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const RuntimeCall call;
  Event* const event = call.event(handle, "cudaEventQuery");
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t status = may_wait_for(call, *event); status != cudaSuccess) return status;
  if (event->record && !event->record->done) {
    call->scheduler().give_way();
    const cudaError_t status = call.usable();
    return status == cudaSuccess ? cudaErrorNotReady : status;
  }
  if (event->record) {
    for (const auto& order : event->record->orders) acquire(order.get());
  }
  return call.usable();
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const RuntimeCall call;
  Event* const event = call.event(handle, "cudaEventSynchronize");
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t status = may_wait_for(call, *event); status != cudaSuccess) return status;
  const auto record = event->record;
  if (!record) return call.usable();
  call->scheduler().wait(EventDone(*record), never);
  for (const auto& order : record->orders) acquire(order.get());
  return call.usable();
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const RuntimeCall call;
  for (Event* const event : {static_cast<Event*>(start), static_cast<Event*>(end)}) {
    if (event == nullptr || !event->timing || !event->record) {
      return call.fail(cudaErrorInvalidResourceHandle);
    }
    if (!event->record->done) return call.fail(cudaErrorNotReady);
  }
  constexpr double nanoseconds_per_millisecond = 1e6;
  const auto elapsed = static_cast<std::int64_t>(end->record->time - start->record->time);
  *milliseconds = static_cast<float>(static_cast<double>(elapsed) / nanoseconds_per_millisecond);
  return call.usable();
}

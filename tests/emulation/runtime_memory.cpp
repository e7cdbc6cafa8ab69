// Memory, copies and IPC of the runtime API.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/emulation/patterns.h"
#include "tests/emulation/runtime_call.h"

using namespace lockstep::emulation;

namespace {

// Copies in pieces, between which others may go: a copy engine does not stop the rest.
constexpr std::size_t piece_bytes = 64 * 1024;

class CopyCall final : public KernelCall {
 public:
  CopyCall(void* to, const void* from, std::size_t bytes, bool to_host)
      : to_(static_cast<std::byte*>(to)),
        from_(static_cast<const std::byte*>(from)),
        bytes_(bytes),
        to_host_(to_host) {}

  void run() const override {
    for (std::size_t done = 0; done < bytes_; done += piece_bytes) {
      if (done != 0) may_switch();
      std::memcpy(to_ + done, from_ + done, std::min(piece_bytes, bytes_ - done));
    }
    if (to_host_) look_for_uninitialised();
  }

 private:
  // What reaches the host should not derive from shared memory that nothing was written to.
  void look_for_uninitialised() const {
    const Inside inside;
    if (!holds_float_of(uninitialised_shared_pattern, to_, bytes_)) return;
    Machine::current().devices().report(
        Fault::uninitialised_shared,
        fmt::format("among {} bytes copied to the host are values that derive from shared memory "
                    "before it was written",
                    bytes_));
  }

  std::byte* to_;
  const std::byte* from_;
  std::size_t bytes_;
  bool to_host_;
};

class FillCall final : public KernelCall {
 public:
  FillCall(void* to, int value, std::size_t bytes) : to_(to), value_(value), bytes_(bytes) {}
  void run() const override { std::memset(to_, value_, bytes_); }

 private:
  void* to_;
  int value_;
  std::size_t bytes_;
};

std::shared_ptr<const Work> copy_work(const Stream& stream, const char* name,
                                      std::shared_ptr<const KernelCall> call) {
  return std::make_shared<Work>(Work{
      .kind = Work::Kind::copy, .call = std::move(call), .name = name, .device = stream.device});
}

// Whether [pointer, pointer + bytes) may be copied from or to; reports a fault otherwise.
bool is_valid(const RuntimeCall& call, const void* pointer, std::size_t bytes, const char* what) {
  if (bytes == 0 || !call->memory().owner(pointer)) return true;
  const Allocation* const allocation = call->memory().find(pointer);
  if (allocation != nullptr && allocation->contains(pointer, bytes)) return true;
  call->devices().report(
      Fault::out_of_bounds,
      fmt::format("{}: {} bytes at {} are not within an allocation{}", what, bytes, pointer,
                  allocation == nullptr
                      ? ""
                      : fmt::format(", the one there is has {} bytes at {}", allocation->bytes,
                                    static_cast<const void*>(allocation->begin))));
  return false;
}

cudaError_t allocate(void** pointer, std::size_t bytes, bool of_host) {
  const RuntimeCall call;
  if (const cudaError_t status = call.usable(); status != cudaSuccess) return status;
  if (const cudaError_t status = call.outside_capture(); status != cudaSuccess) return status;
  const int device = call.context();
  *pointer = bytes == 0 ? nullptr : call->memory().allocate(of_host ? on_host : device, bytes);
  return *pointer != nullptr || bytes == 0 ? cudaSuccess : call.fail(cudaErrorMemoryAllocation);
}

cudaError_t free_memory(void* pointer, bool of_host, const char* name) {
  const RuntimeCall call;
  if (pointer == nullptr) return cudaSuccess;
  const Allocation* const allocation = call->memory().find(pointer);
  if (allocation == nullptr || allocation->begin != pointer ||
      (allocation->device == on_host) != of_host) {
    return call.misuse(fmt::format("{}({}): no such allocation", name, pointer));
  }
  if (allocation->imports != 0) {
    return call.misuse(
        fmt::format("{}({}): still open {} times through IPC", name, pointer, allocation->imports));
  }
  if (const cudaError_t status = call.outside_capture(); status != cudaSuccess) return status;
  call.wait_for_device(of_host ? current_device() : allocation->device, name);
  call->memory().free(pointer);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return allocate(pointer, bytes, /*of_host=*/false);
}

cudaError_t cudaFree(void* pointer) {
  return free_memory(pointer, false, "cudaFree");
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return allocate(pointer, bytes, /*of_host=*/true);
}

cudaError_t cudaFreeHost(void* pointer) {
  return free_memory(pointer, true, "cudaFreeHost");
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const RuntimeCall call(false);
  *total = call->memory().bytes_per_device();
  *free = *total - call->memory().bytes_in_use(call.context());
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const RuntimeCall call(false);
  const Allocation* const allocation = call->memory().find(pointer);
  *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, nullptr};
  if (allocation == nullptr) return cudaSuccess;
  const bool host = allocation->device == on_host;
  attributes->type = host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = host ? current_device() : allocation->device;
  attributes->devicePointer = const_cast<void*>(pointer);
  attributes->hostPointer = host ? const_cast<void*>(pointer) : nullptr;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t handle) {
  const RuntimeCall call;
  Stream* const stream = call.stream(handle, "cudaMemcpyAsync");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t status = call.may_enqueue(*stream); status != cudaSuccess) return status;
  if (!is_valid(call, from, bytes, "cudaMemcpyAsync from") ||
      !is_valid(call, to, bytes, "cudaMemcpyAsync to")) {
    return call.fail(cudaErrorInvalidValue);
  }
  const auto target = call->memory().owner(to);
  const bool pageable = !target || !call->memory().owner(from);
  if (pageable && stream->capture) {
    return call.end_capture(*stream->capture, cudaErrorStreamCaptureUnsupported);
  }
  const bool to_host = target.value_or(on_host) == on_host;
  call->enqueue(*stream,
                copy_work(*stream, "a copy", std::make_shared<CopyCall>(to, from, bytes, to_host)));
  return pageable ? call.wait_for(*stream, "cudaMemcpyAsync") : cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t handle) {
  const RuntimeCall call;
  Stream* const stream = call.stream(handle, "cudaMemsetAsync");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t status = call.may_enqueue(*stream); status != cudaSuccess) return status;
  if (!is_valid(call, pointer, bytes, "cudaMemsetAsync")) return call.fail(cudaErrorInvalidValue);
  call->enqueue(*stream, copy_work(*stream, "cudaMemsetAsync",
                                   std::make_shared<FillCall>(pointer, value, bytes)));
  return cudaSuccess;
}

// --- IPC
// --------------------------------------------------------------------------------------------------

namespace {

struct FakeHandle {
  std::uint64_t magic;
  void* begin;
};
constexpr std::uint64_t handle_magic = 0x656c646e61484350u;

}  // namespace

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  const RuntimeCall call;
  const Allocation* const allocation = call->memory().find(pointer);
  if (allocation == nullptr || allocation->device == on_host) {
    return call.fail(cudaErrorInvalidValue);
  }
  const FakeHandle fake{handle_magic, allocation->begin};
  *handle = {};
  std::memcpy(handle->reserved, &fake, sizeof(fake));
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags) {
  const RuntimeCall call;
  FakeHandle fake;
  std::memcpy(&fake, handle.reserved, sizeof(fake));
  Allocation* const allocation =
      fake.magic == handle_magic ? call->memory().find(fake.begin) : nullptr;
  if (allocation == nullptr || allocation->begin != fake.begin) {
    return call.fail(cudaErrorInvalidResourceHandle);
  }
  if (const int device = call.context(); allocation->device != device) {
    if (flags != cudaIpcMemLazyEnablePeerAccess || !call->options().peer_access) {
      return call.fail(cudaErrorPeerAccessUnsupported);
    }
    call->memory().set_peer_access(device, allocation->device, true);
  }
  ++allocation->imports;
  *pointer = allocation->begin;
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  const RuntimeCall call;
  Allocation* const allocation = call->memory().find(pointer);
  if (allocation == nullptr || allocation->imports == 0) return call.fail(cudaErrorInvalidValue);
  --allocation->imports;
  return cudaSuccess;
}

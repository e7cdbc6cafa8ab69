// Context: a rank's world as far as computing goes. Device, memory, streams, threads, randomness
// and whether operations are recorded. One object per rank, passed along and never global, so that
// eight ranks can live in one process.
//
// Used by the rank's own thread. Must outlive every tensor made from it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <typeindex>

#include "framework/base/random.h"
#include "framework/device/allocator.h"
#include "framework/device/device.h"
#include "framework/device/stream.h"

namespace lockstep::device {

class Graph;
class Recorder;
class ThreadPool;

class Context {
 public:
  virtual ~Context() = default;
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  virtual Device device() const = 0;
  virtual CachingAllocator& allocator() = 0;
  // Memory of the host that the device copies to and from by itself: page-locked for a GPU.
  virtual Allocator& host_memory() = 0;
  virtual Stream& compute_stream() = 0;
  // A further stream that runs beside the compute stream; `name` shows in debuggers and timelines.
  virtual std::unique_ptr<Stream> make_stream(const std::string& name) = 0;
  // The host threads that share this rank's work; a result never depends on their number.
  virtual ThreadPool& threads() = 0;

  // Enqueues a copy of `bytes` bytes on `stream`, a stream of this context. Both sides are memory
  // of the device, of a peer, or from host_memory(), and stay valid and untouched until it is done.
  virtual void copy(void* to, const void* from, std::size_t bytes, Stream& stream) = 0;
  // Any host memory to the device, on the compute stream; `from` may be reused afterwards.
  void upload(void* to, const void* from, std::size_t bytes);
  // The device's memory to any host memory, when the work on the compute stream so far is done; it
  // is there when this returns.
  void download(void* to, const void* from, std::size_t bytes);

  // Whether work can be captured into graphs (device/graph.h): on GPUs.
  virtual bool has_graphs() const { return false; }
  // Runs `body`, while what it enqueues on the compute stream and on `streams`, others of this
  // context, is captured and not run. It has enqueued the same before: memory comes from the cache
  // only and kernels are loaded. `streams` are ordered behind the compute stream's work at the
  // beginning and the compute stream behind theirs at the end. Whatever `body` throws, CaptureError
  // above all, ends the capture; nothing of it has run then, and the streams go on as before.
  // Throws UsageError where there are no graphs.
  virtual std::unique_ptr<Graph> capture(std::span<Stream* const> streams,
                                         const std::function<void()>& body);

  // What the calling thread enqueues from here to the matching end_range() has a name in the
  // profilers of the device: NVTX ranges for NVIDIA's. Ranges nest. Without effect on the CPU.
  virtual void begin_range(const char* /*name*/) {}
  virtual void end_range() {}

  // What a library on top keeps for this context (a handle, a workspace): a T made with the context
  // when it is first asked for. It goes before the context's streams and memory.
  template <class T>
  T& attachment() {
    std::shared_ptr<void>& slot = attachments_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>(*this);
    return *static_cast<T*>(slot.get());
  }

  base::RandomState& random() { return random_; }

  // Whether operations record themselves for differentiation (see autograd/no_grad.h).
  bool recording() const { return recording_; }
  void set_recording(bool recording) { recording_ = recording; }

  // Who is told what this rank's thread does (see device/recorder.h); null: nobody.
  Recorder* recorder() const { return recorder_; }
  void set_recorder(Recorder* recorder) { recorder_ = recorder; }

 protected:
  // For destructors of contexts whose attachments need them whole.
  void release_attachments() { attachments_.clear(); }

 private:
  std::map<std::type_index, std::shared_ptr<void>> attachments_;
  base::RandomState random_;
  bool recording_ = true;
  Recorder* recorder_ = nullptr;
};

}  // namespace lockstep::device

namespace lockstep {
using device::Context;
}

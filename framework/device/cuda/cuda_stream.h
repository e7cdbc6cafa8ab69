// Streams and events of CUDA behind the Stream and Event that everything else is written against.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "framework/device/cuda/cuda_error.h"
#include "framework/device/stream.h"

namespace lockstep::device {

class CudaCapture;
class EventPool;

// A high-priority stream's blocks go first when blocks of several kernels wait for room.
enum class StreamPriority { normal, high };

// Non-blocking towards the legacy default stream, which nothing here uses. The destructor waits for
// what was enqueued. enqueue() runs its task at once on the calling thread, which launches kernels
// on native(); what the task throws passes through.
//
// In the middle of a capture the stream takes part in, record() and wait() are edges of the graph,
// and whatever would make the host wait throws CaptureError.
class CudaStream final : public Stream {
 public:
  CudaStream(const CudaPlace& place, StreamPriority priority, const std::string& name);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void enqueue(std::function<void()> task) override;
  Event record() override;
  // An event of another kind of stream is waited for on the host.
  void wait(const Event& event) override;
  void synchronize() override;

  cudaStream_t native() const { return stream_; }
  const CudaPlace& place() const { return place_; }
  const std::string& name() const { return name_; }
  // Makes the stream's device the calling thread's current one; every call below needs that.
  void activate() const;

  // The capture that the stream takes part in; null outside of one. Set by the capture.
  CudaCapture* capture() const { return capture_; }
  void take_part_in(CudaCapture* capture) { capture_ = capture; }

 private:
  CudaPlace place_;
  std::string name_;
  std::shared_ptr<EventPool> events_;
  cudaStream_t stream_ = nullptr;
  CudaCapture* capture_ = nullptr;
};

// The CUDA stream behind a context's stream. Throws UsageError where it is not one.
CudaStream& cuda_stream(Stream& stream);

}  // namespace lockstep::device

// Stream: an ordered queue of work. Event: a point in one.
//
// On CUDA they are CUDA's. On the CPU a compute stream is inline (work runs on the calling thread
// before enqueue() returns) and a communication stream is a thread of its own. The averager, the
// trainer and the overlap logic are written once against these two classes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace lockstep::device {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// What an Event refers to; one implementation for each kind of stream.
class EventState {
 public:
  virtual ~EventState() = default;
  virtual bool done() const = 0;
  virtual bool wait_until(Deadline deadline) const = 0;  // false when the deadline passed first
};

// A point in a stream: done when all the work enqueued before it is done. A default Event is done.
// A cheap handle, safe to copy and to use from any thread.
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<const EventState> state) : state_(std::move(state)) {}

  bool done() const { return !state_ || state_->done(); }
  bool wait_until(Deadline deadline) const { return !state_ || state_->wait_until(deadline); }
  void wait() const { wait_until(Deadline::max()); }
  const EventState* state() const { return state_.get(); }

 private:
  std::shared_ptr<const EventState> state_;
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Runs `task` after everything enqueued before. On a CPU stream the task is the work itself; on a
  // CUDA stream it runs at once on the calling thread and enqueues kernels. A task must not throw.
  // enqueue, record and wait are called by the stream's owner only.
  virtual void enqueue(std::function<void()> task) = 0;
  virtual Event record() = 0;
  virtual void wait(
      const Event& event) = 0;     // work enqueued later waits for `event`; the host does not
  virtual void synchronize() = 0;  // the host waits for everything enqueued so far
  virtual bool is_inline() const { return false; }
};

}  // namespace lockstep::device

namespace lockstep {
using device::Event;
using device::Stream;
}  // namespace lockstep

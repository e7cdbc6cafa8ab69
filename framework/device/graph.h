// Graph: work of a context's streams that was captured instead of run, to be run as a whole any
// number of times, for what one launch costs the host. Context::capture() makes it.
//
// A launch does again what was enqueued, with the addresses and the values that kernels were given
// then; what the host did beside that it does not do again. So whatever changes from one launch to
// the next lies in memory, and no result is read by the host in the middle.
#pragma once

#include "framework/base/error.h"
#include "framework/device/stream.h"

namespace lockstep::device {

// Something that cannot be part of a graph was asked for in the middle of a capture: a wait of the
// host, memory that has to come from the device, an event from outside.
class CaptureError : public Error {
 public:
  using Error::Error;
};

// The memory that tensors and copies of the captured work had belongs to the graph as long as it
// lives. The context, and whatever else takes part (communicators), must outlive it. The destructor
// waits for the launches.
class Graph {
 public:
  virtual ~Graph() = default;
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Enqueues all of it on the compute stream, whatever streams it was captured from. Returns its
  // end.
  virtual Event launch() = 0;
};

}  // namespace lockstep::device

namespace lockstep {
using device::CaptureError;
using device::Graph;
}  // namespace lockstep

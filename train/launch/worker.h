// Worker: one rank as the launcher started it, a process or a thread. What a rank's code may know about
// its surroundings.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/memory/group.h"
#include "comm/store/store.h"

namespace lockstep::train {

class Worker {
 public:
  virtual ~Worker() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual comm::Store& store() = 0;

  // The ranks of this host as a group that shares memory. Collective; each call makes a group of its own.
  // Once the launcher learns that a rank was lost, every group made here is aborted with that cause.
  virtual std::unique_ptr<comm::Group> join(const std::string& name, std::chrono::milliseconds start_timeout) = 0;

  // Whether the user asked the run to stop (SIGINT, SIGTERM). Ranks see it at different moments, so they
  // must agree on the step at which to stop.
  virtual bool stop_requested() const = 0;

  // Where this rank is, for the messages about a rank that was lost or is stuck.
  virtual void report_step(std::int64_t step) = 0;
  virtual std::int64_t step_of(int rank) const = 0;

  // Says that this rank failed for a reason of its own, before it throws. The first report of a run is
  // its first cause, which the launcher prints last and takes the exit code from.
  virtual void report_failure(int exit_code, const std::string& message) = 0;
};

}  // namespace lockstep::train

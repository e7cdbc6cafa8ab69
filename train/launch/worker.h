// Worker: one rank as the launcher started it, a process or a thread. What a rank's code may know
// about its surroundings.
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
  // Keeps a callback registered; destroying it waits for a call in progress.
  using Subscription = std::shared_ptr<void>;
  using OnAbort = std::function<void(int rank, const std::string& cause)>;

  virtual ~Worker() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual comm::Store& store() = 0;

  // Ranks of one host as a group that shares memory, in which this one is `rank` of `size`.
  // Collective over them; each name once. StartupError names the ranks that did not come in time.
  virtual std::unique_ptr<comm::Group> join(const std::string& name, int rank, int size,
                                            std::chrono::milliseconds start_timeout) = 0;
  // All ranks.
  std::unique_ptr<comm::Group> join(const std::string& name,
                                    std::chrono::milliseconds start_timeout) {
    return join(name, rank(), world_size(), start_timeout);
  }

  // Calls `abort`, from another thread, once the launcher learns that a rank failed or was lost; at
  // once if it has already. Meant for Communicator::abort and Group::abort. The subscription must
  // go before what it aborts: declare it after the communicator.
  [[nodiscard]] virtual Subscription on_abort(OnAbort abort) = 0;

  // Whether the user asked the run to stop (SIGINT, SIGTERM). Ranks see it at different moments, so
  // they must agree on the step at which to stop.
  virtual bool stop_requested() const = 0;

  // The update this rank works on, from 1; for the messages about a rank that was lost or is stuck.
  // 0 while it has not reported one.
  virtual void report_step(std::int64_t step) = 0;
  virtual std::int64_t step_of(int rank) const = 0;

  // Says that this rank failed for a reason of its own; only the first call counts. An exception
  // that leaves the rank's code is reported by itself, but first it unwinds: where that may wait
  // for other ranks, report before. The first report of a run is its first cause, which the
  // launcher prints last and takes the exit code from; a RankError that names another rank accuses
  // that one, whose own report then comes first.
  virtual void report_failure(const std::exception& error) = 0;
};

}  // namespace lockstep::train

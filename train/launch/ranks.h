// Ranks: the started ranks of a run as the supervisor sees them, processes or threads.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "train/launch/failure.h"
#include "train/launch/launch.h"
#include "train/launch/scoreboard.h"

namespace lockstep::train {

struct Happenings {
  std::vector<Failure> failures;
  bool asked_to_terminate = false;  // somebody sent SIGTERM to a worker
};

class Ranks {
 public:
  virtual ~Ranks() = default;
  // What becomes readable when something happens, besides SIGCHLD.
  virtual std::vector<pollfd> sources() const = 0;
  virtual Happenings collect() = 0;  // since the last call, without waiting
  virtual bool is_alive(int rank) const = 0;
  virtual void abort(int rank, int guilty, const std::string& cause) = 0;  // tells `rank`
  // Ends all that are alive, if they can be; their deaths are no failures.
  virtual bool kill() = 0;
};

// Both throw StartupError. `body` stays valid.
std::unique_ptr<Ranks> start_processes(const LaunchOptions& options, Scoreboard& scoreboard,
                                       const Log& log);
std::unique_ptr<Ranks> start_threads(const LaunchOptions& options, Scoreboard& scoreboard,
                                     const Body& body);

}  // namespace lockstep::train

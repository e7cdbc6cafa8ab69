// Supervisor: watches over the ranks of a run until all have ended, and says why they did.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "train/launch/failure.h"
#include "train/launch/launch.h"
#include "train/launch/ranks.h"
#include "train/launch/scoreboard.h"
#include "train/launch/signals.h"

namespace lockstep::train {

class Supervisor {
 public:
  Supervisor(const LaunchOptions& options, Scoreboard& scoreboard, const Signals& signals,
             Ranks& ranks, const Log& log)
      : options_(options), scoreboard_(scoreboard), signals_(signals), ranks_(ranks), log_(log) {}

  // Returns when no rank is left, with the exit code of the run.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  void wait() const;
  void take_signals();
  void ask_to_stop(int signal);
  void take_happenings();
  void abort_others(const Failure& failure);
  void kill_before(Clock::time_point deadline);
  void kill();
  std::vector<int> alive() const;
  int report() const;
  void report_cause(const Failure& cause) const;

  const LaunchOptions& options_;
  Scoreboard& scoreboard_;
  const Signals& signals_;
  Ranks& ranks_;
  const Log& log_;

  std::vector<Failure> failures_;
  std::optional<Clock::time_point> kill_at_;
};

}  // namespace lockstep::train

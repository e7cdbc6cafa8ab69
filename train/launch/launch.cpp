#include "train/launch/launch.h"

#include <fmt/format.h>

#include "framework/base/error.h"
#include "train/launch/ranks.h"
#include "train/launch/scoreboard.h"
#include "train/launch/signals.h"
#include "train/launch/supervisor.h"

namespace lockstep::train {

int launch(const LaunchOptions& options, const Body& body, const Log& log) {
  if (options.workers < 1) {
    throw ConfigError(fmt::format("found {} workers, expected at least 1", options.workers));
  }
  const bool processes = options.kind == LaunchKind::processes;
  if (!processes && options.listen) {
    throw ConfigError("ranks that are threads of one process need no port and no interface");
  }
  // Before anything that starts a thread, which would take the signals otherwise.
  const Signals signals;
  Scoreboard scoreboard = processes ? Scoreboard::make_shared(options.workers)
                                    : Scoreboard::make_private(options.workers);
  const std::unique_ptr<Ranks> ranks = processes ? start_processes(options, scoreboard, log)
                                                 : start_threads(options, scoreboard, body);
  return Supervisor(options, scoreboard, signals, *ranks, log).run();
}

std::string rank_log(const std::string& folder, int rank) {
  return fmt::format("{}/rank-{}.log", folder, rank);
}

}  // namespace lockstep::train

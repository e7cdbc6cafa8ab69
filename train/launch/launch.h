// The launcher: starts the ranks of a run on this host, watches over them and ends them together.
//
// Ranks are processes (this program started again) or threads of this process. Processes hold, from
// before they start, one end of a socket to the launcher's store, one of a control channel and a
// shared scoreboard: no names, no ports, nothing to be left behind. However the launcher ends, its
// workers end too.
//
// What the launcher guarantees: when a rank fails or is lost the others are told at once, have
// `abort_grace` to leave by themselves, and are killed after that; the first cause is printed last,
// with rank, step and log, and gives the exit code. SIGINT and SIGTERM ask the ranks to stop at a
// common step; after `stop_grace`, or at the second signal, they are killed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "framework/base/log.h"
#include "train/launch/worker.h"

namespace lockstep::train {

// The code of one rank. Returning means that its work is done; throwing ends the run.
using Body = std::function<void(Worker&)>;

enum class LaunchKind { processes, threads };

// Where the store listens when it has to be reachable at an address.
struct Endpoint {
  std::string host;
  int port = 0;  // 0: a free one
};

struct LaunchOptions {
  int workers = 1;
  LaunchKind kind = LaunchKind::processes;
  std::map<std::string, std::string> settings;  // in the store before the first rank starts
  std::string log_folder;          // of the ranks' logs, see rank_log(); empty: there are none
  std::optional<Endpoint> listen;  // none: private sockets
  std::chrono::milliseconds abort_grace{2'000};
  std::chrono::milliseconds stop_grace{8'000};
};

// Runs `body` on every rank and returns the program's exit code. In the processes kind the ranks
// run the body that their own main() gave to run_if_worker(). Takes SIGINT, SIGTERM and SIGCHLD
// while it runs; call it once at a time, from a thread that lives as long as the run. Throws
// StartupError when the ranks cannot be started. Ranks that are threads and do not end cannot be
// killed: the process exits with the cause's code.
int launch(const LaunchOptions& options, const Body& body, const Log& log);

// First thing in main(): when this process was started by launch(), runs the rank and returns its
// exit code; otherwise returns nothing and does nothing.
std::optional<int> run_if_worker(int argc, char** argv, const Body& body);

// "<folder>/rank-3.log"
std::string rank_log(const std::string& folder, int rank);

}  // namespace lockstep::train

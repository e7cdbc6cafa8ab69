// Gloo (github.com/facebookincubator/gloo) as a backend: its collectives over TCP.
//
// Algorithms of all_reduce: "ring" and "bcube" (Gloo's hypercube-like exchange, fewer steps for
// small data); "auto" is ring. 16-bit floats travel as float in reductions.
//
// What Gloo leaves open: its connections are neither encrypted nor authenticated. Its ports are
// open only while the ranks connect.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "comm/store/store.h"

namespace lockstep::comm {

struct GlooPlace {
  int rank = 0;
  int size = 1;
  std::string prefix;                    // this group's own in the store: of the job and attempt
  std::optional<std::string> interface;  // none: the loopback; host names are never looked up
  std::chrono::milliseconds start_timeout{60'000};
};

// Collective. The store outlives the communicator. SIGPIPE is ignored in this process from then on
// unless it has a handler. StartupError names the ranks that do not come;
// in a build without Gloo it says so.
std::unique_ptr<Communicator> make_gloo_communicator(Store& store, const GlooPlace& place,
                                                     const CommunicatorOptions& options);

bool has_gloo();  // in this build

}  // namespace lockstep::comm

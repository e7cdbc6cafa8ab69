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

#include "comm/message/transport.h"
#include "comm/store/store.h"

namespace lockstep::comm {

struct GlooPlace {
  int rank = 0;
  int size = 1;
  std::string prefix;                    // this group's own in the store: of the job and attempt
  std::optional<std::string> interface;  // none: the loopback; host names are never looked up
  std::chrono::milliseconds start_timeout{60'000};
};

// Collective; `algorithm` is comm.algorithm. The store outlives the transport. SIGPIPE is ignored
// in this process from then on unless it has a handler. StartupError names the ranks that do not
// come; in a build without Gloo it says so. ConfigError for an unknown algorithm.
std::unique_ptr<Transport> connect_gloo(Store& store, const GlooPlace& place,
                                        const std::string& algorithm);

bool has_gloo();  // in this build

}  // namespace lockstep::comm

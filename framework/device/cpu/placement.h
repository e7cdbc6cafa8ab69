// Placement: which cores the workers of one host stay on.
//
// Left to itself the scheduler may put two workers on one core, since each looks half idle while it
// waits for the other (measured: a step of two workers takes twice as long for as long as that
// lasts). So each worker is confined to a block of neighbouring cores of one memory node, where
// there are enough: its threads may move within the block, and its memory stays near.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::device {

// The processors ("cpus") that this thread may run on, as the operating system numbers them.
struct Topology {
  struct Core {
    int node = 0;           // memory node
    std::vector<int> cpus;  // hardware threads
    bool operator==(const Core&) const = default;
  };
  // Neighbours stand side by side: those of one node, of one cache.
  std::vector<Core> cores;
};

// Of this thread, so as its affinity and cgroups leave it; through hwloc. Nothing where the build
// has no hwloc. Throws StartupError where the machine cannot be read.
std::optional<Topology> allowed_topology();

// The same from a description in hwloc's synthetic form, "numa:2 core:4 pu:2", of which only
// `allowed` cpus may be used; empty: all. For tests.
std::optional<Topology> synthetic_topology(const std::string& description,
                                           const std::vector<int>& allowed = {});

// A block of cores for each of `workers`, without overlap, together all of them: nodes get workers
// by their number of cores, and no block spans two nodes unless a node has too few cores for one.
// Empty where there are fewer cores than workers have threads.
std::vector<std::vector<Topology::Core>> blocks_for(const Topology& topology, int workers,
                                                    int threads);

// Confines this thread, and those that it starts, to the cores. Throws StartupError.
void confine_this_thread(const std::vector<Topology::Core>& cores);

// "0-3,8" of the cpus.
std::string list_cpus(const std::vector<Topology::Core>& cores);

}  // namespace lockstep::device

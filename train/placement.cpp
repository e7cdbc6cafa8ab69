#include "train/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "comm/memory/core_mask.h"
#include "framework/base/error.h"
#include "framework/device/cpu/placement.h"

namespace lockstep::train {
namespace {

PlacementChoice unpinned(const std::string& asked, const std::string& why) {
  if (asked == "on") throw ConfigError(fmt::format("compute.pin: on, but {}", why));
  return {false, fmt::format("workers are not pinned: {}", why)};
}

std::string count(int number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace

int usable_cores() {
  return comm::CoreMask::of_this_thread().count();
}

int threads_of_worker(const Config::Compute& compute, int workers) {
  return compute.threads.value_or(std::max(1, usable_cores() / workers));
}

PlacementChoice choose_placement(const Config::Compute& compute, int workers) {
  if (compute.pin == "off") return {false, "workers are not pinned, as asked"};
  const int threads = threads_of_worker(compute, workers);
  const int wanted = workers * threads;
  // Reading the topology takes some milliseconds: not where it can be of no use.
  if (workers == 1 && compute.pin == "auto")
    return unpinned(compute.pin, "there is only one, which may use every core");
  const std::string demand = fmt::format("{} with {} each want {}", count(workers, "worker"),
                                         count(threads, "thread"), count(wanted, "core"));
  if (usable_cores() < wanted)
    return unpinned(compute.pin, fmt::format("{}, found {}", demand, usable_cores()));
  const auto topology = device::allowed_topology();
  if (!topology) return unpinned(compute.pin, "this build has no hwloc");
  const auto blocks = device::blocks_for(*topology, workers, threads);
  if (blocks.empty())  // hardware threads were counted, but the cores are too few
    return unpinned(compute.pin, fmt::format("{}, found {}", demand, topology->cores.size()));
  std::set<int> nodes;
  std::vector<std::string> places;
  for (const auto& block : blocks) {
    places.push_back(device::list_cpus(block));
    for (const auto& core : block) nodes.insert(core.node);
  }
  return {true, fmt::format("workers are pinned to the cores {} (of {})", fmt::join(places, " | "),
                            count(static_cast<int>(nodes.size()), "memory node"))};
}

void take_place(const Config::Compute& compute, int worker, int workers) {
  const auto topology = device::allowed_topology();
  const auto blocks =
      topology ? device::blocks_for(*topology, workers, threads_of_worker(compute, workers))
               : std::vector<std::vector<device::Topology::Core>>();
  if (blocks.empty())
    throw StartupError("the cores that this worker may use are not those of the launcher");
  device::confine_this_thread(blocks[static_cast<std::size_t>(worker)]);
}

}  // namespace lockstep::train

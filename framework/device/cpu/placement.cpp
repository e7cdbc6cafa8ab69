#include "framework/device/cpu/placement.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "framework/base/error.h"

namespace lockstep::device {

namespace {

using Cores = std::vector<Topology::Core>;

std::vector<Cores> by_node(const Topology& topology) {
  std::vector<Cores> nodes;
  for (const Topology::Core& core : topology.cores) {
    if (nodes.empty() || nodes.back().front().node != core.node) nodes.emplace_back();
    nodes.back().push_back(core);
  }
  return nodes;
}

// How many workers each node takes: those with most cores for each worker first. Empty where some
// worker would have to span nodes.
std::vector<int> workers_of_nodes(const std::vector<Cores>& nodes, int workers, int threads) {
  std::vector<int> taken(nodes.size());
  for (int w = 0; w < workers; ++w) {
    std::size_t best = nodes.size();
    const auto share = [&](std::size_t n) {
      return static_cast<double>(nodes[n].size()) / (taken[n] + 1);
    };
    for (std::size_t n = 0; n < nodes.size(); ++n)
      if (share(n) >= threads && (best == nodes.size() || share(n) > share(best))) best = n;
    if (best == nodes.size()) return {};
    ++taken[best];
  }
  return taken;
}

void cut(const Cores& cores, int parts, std::vector<Cores>& blocks) {
  const auto count = static_cast<int>(cores.size());
  for (int p = 0; p < parts; ++p)
    blocks.emplace_back(cores.begin() + count * p / parts, cores.begin() + count * (p + 1) / parts);
}

}  // namespace

std::vector<Cores> blocks_for(const Topology& topology, int workers, int threads) {
  if (static_cast<int>(topology.cores.size()) < workers * threads) return {};
  const std::vector<Cores> nodes = by_node(topology);
  const std::vector<int> taken = workers_of_nodes(nodes, workers, threads);
  std::vector<Cores> blocks;
  if (taken.empty()) {
    cut(topology.cores, workers, blocks);
  } else {
    for (std::size_t n = 0; n < nodes.size(); ++n) cut(nodes[n], taken[n], blocks);
  }
  return blocks;
}

void confine_this_thread(const Cores& cores) {
  int most = 0;
  for (const Topology::Core& core : cores)
    for (const int cpu : core.cpus) most = std::max(most, cpu);
  const auto count = static_cast<std::size_t>(most) + 1;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(count),
                                                             [](cpu_set_t* s) { CPU_FREE(s); });
  const std::size_t bytes = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(bytes, set.get());
  for (const Topology::Core& core : cores)
    for (const int cpu : core.cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.get());
  if (sched_setaffinity(0, bytes, set.get()) != 0)
    throw StartupError(
        fmt::format("cannot stay on the cores {}: {}", list_cpus(cores), std::strerror(errno)));
}

std::string list_cpus(const Cores& cores) {
  std::vector<int> cpus;
  for (const Topology::Core& core : cores)
    cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  std::sort(cpus.begin(), cpus.end());
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (last > i) text += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace lockstep::device

#include "comm/hierarchical/host_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "comm/store/rules.h"
#include "framework/base/error.h"

namespace lockstep::comm {

std::string this_boot() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

std::string this_host() {
  std::error_code error;
  return this_boot() + " " + std::filesystem::read_symlink("/proc/self/ns/net", error).string();
}

HostMap::HostMap(std::vector<std::string> host_by_rank) : names_(std::move(host_by_rank)) {
  for (std::size_t rank = 0; rank < names_.size(); ++rank) {
    const auto first = std::find(names_.begin(), names_.end(), names_[rank]) - names_.begin();
    if (first == static_cast<std::ptrdiff_t>(rank)) {
      host_.push_back(hosts());
      ranks_.emplace_back();
    } else {
      host_.push_back(host_[static_cast<std::size_t>(first)]);
    }
    auto& mates = ranks_[static_cast<std::size_t>(host_.back())];
    place_.push_back(static_cast<int>(mates.size()));
    mates.push_back(static_cast<int>(rank));
  }
  const auto by_size = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  lanes_ = static_cast<int>(std::min_element(ranks_.begin(), ranks_.end(), by_size)->size());
}

std::vector<int> HostMap::ranks_of_lane(int lane) const {
  std::vector<int> ranks;
  for (const auto& mates : ranks_) ranks.push_back(mates[static_cast<std::size_t>(lane)]);
  return ranks;
}

HostMap HostMap::of(std::span<const int> members) const {
  std::vector<std::string> names;
  for (const int rank : members) names.push_back(names_[static_cast<std::size_t>(rank)]);
  return HostMap(std::move(names));
}

std::string HostMap::describe() const {
  std::size_t most = 0;
  for (const auto& mates : ranks_) most = std::max(most, mates.size());
  const std::string each = static_cast<int>(most) == lanes_ ? fmt::format("{}", most)
                                                            : fmt::format("{} to {}", lanes_, most);
  return fmt::format("{} host{} of {} rank{}", hosts(), hosts() == 1 ? "" : "s", each,
                     most == 1 ? "" : "s");
}

HostMap exchange_hosts(Store& store, const std::string& prefix, int rank, int size,
                       const std::string& own_host, std::chrono::milliseconds timeout) {
  const auto key = [&](int r) { return fmt::format("{}/host/{}", prefix, r); };
  const auto deadline = deadline_after(timeout);
  store.set(key(rank), own_host);
  std::vector<std::string> names;
  for (int r = 0; r < size; ++r) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - device::Clock::now());
    try {
      names.push_back(store.get(key(r), std::max(left, left.zero())));
    } catch (const StartupError&) {
      throw StartupError(fmt::format("rank {} did not come within {:.1f} s", r,
                                     std::chrono::duration<double>(timeout).count()));
    }
  }
  return HostMap(std::move(names));
}

}  // namespace lockstep::comm

// HostMap: which ranks share a host, and which of them speak for it.
//
// Every rank has a place among the ranks of its host, in the order of the ranks. The ranks of one
// place on all hosts form a lane: data that all hosts reduce is cut into a slice for each lane. As
// many lanes as the smallest host has ranks; the other ranks of larger hosts have none.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "comm/store/store.h"

namespace lockstep::comm {

// The same for two processes exactly when one boot of one kernel runs both.
std::string this_boot();

// The same for two processes exactly when they can share memory here: one boot of one kernel, and
// one network namespace, since the group's memory travels over abstract sockets.
std::string this_host();

class HostMap {
 public:
  explicit HostMap(std::vector<std::string> host_by_rank);

  int hosts() const { return static_cast<int>(ranks_.size()); }
  // Of one host, in ascending order; hosts are in the order of their first ranks.
  const std::vector<int>& ranks_of(int host) const {
    return ranks_[static_cast<std::size_t>(host)];
  }
  int host_of(int rank) const { return host_[static_cast<std::size_t>(rank)]; }
  int place_of(int rank) const { return place_[static_cast<std::size_t>(rank)]; }

  // Whether all hosts have equally many ranks.
  bool is_even() const { return hosts() * lanes_ == static_cast<int>(host_.size()); }

  int lanes() const { return lanes_; }
  std::vector<int> ranks_of_lane(int lane) const;  // by host

  // Of a group of `members`, which are the new ranks 0, 1, ...
  HostMap of(std::span<const int> members) const;

  std::string describe() const;  // "2 hosts of 4 ranks", "3 hosts of 1 to 4 ranks"

 private:
  std::vector<std::string> names_;  // by rank
  std::vector<std::vector<int>> ranks_;
  std::vector<int> host_, place_;
  int lanes_ = 0;
};

// Collective: all ranks tell each other their hosts. `prefix` is used once in the store.
// StartupError naming a rank that does not come in time.
HostMap exchange_hosts(Store& store, const std::string& prefix, int rank, int size,
                       const std::string& own_host, std::chrono::milliseconds timeout);

}  // namespace lockstep::comm

// Ranks of a test on this host: threads of this process, or processes forked from it.
//
// Ranks report by throwing and through their Rank, since what GoogleTest records in a forked child
// stays there. The caller must have no other threads when ranks are forked.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/memory/group.h"
#include "comm/store/store.h"

namespace lockstep::tests {

enum class RankKind { threads, processes };
std::string_view name_of(RankKind kind);

// What a rank leaves for the test.
struct RankReport {
  std::string error;         // what it threw; "killed by signal 9"; empty where it returned
  std::uint64_t digest = 0;  // of whatever the test compares between ranks
};

class Rank {
 public:
  virtual ~Rank() = default;
  int index() const { return index_; }
  int size() const { return size_; }
  comm::Store& store() { return store_; }
  // A group of this and other ranks, in which it is `rank` of `size`; each name once.
  virtual std::unique_ptr<comm::Group> join(const std::string& name, int rank, int size) = 0;
  // The rank that died, -1 while there is none.
  int lost() const { return lost_.load(); }
  void set_digest(std::uint64_t digest) { digest_ = digest; }

 protected:
  Rank(int index, int size, comm::Store& store, std::uint64_t& digest, const std::atomic<int>& lost)
      : index_(index), size_(size), store_(store), digest_(digest), lost_(lost) {}

 private:
  int index_, size_;
  comm::Store& store_;
  std::uint64_t& digest_;
  const std::atomic<int>& lost_;
};

using RankBody = std::function<void(Rank&)>;

// Runs `body` on every rank and waits for all; by rank.
std::vector<RankReport> run_ranks(RankKind kind, int size, const RankBody& body);

}  // namespace lockstep::tests

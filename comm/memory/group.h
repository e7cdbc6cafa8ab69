// Group: ranks on one host that share memory. The ground under the own collectives.
//
// Made by make_thread_groups() for ranks that are threads of one process, or by
// make_process_group() for ranks that are processes. Everything above is written once against this
// class.
//
// allocate() and split() are collective and called from one thread of a rank at a time; the rest is
// thread-safe. Memory that was allocated may outlive the group.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/memory/signal.h"
#include "comm/memory/spin_budget.h"
#include "comm/memory/symmetric_buffer.h"
#include "comm/memory/yield_budget.h"
#include "comm/store/store.h"
#include "framework/base/error.h"
#include "framework/base/spin.h"
#include "framework/device/stream.h"

namespace lockstep::comm {

// How a waiting rank passes the time: it polls, `spins` times at most (see SpinBudget), gives its
// core to others, `yields` times at most (see YieldBudget), then sleeps.
struct WaitPolicy {
  int spins = 0;
  int yields = 0;
  // `cores`: that the ranks may use, all together.
  static WaitPolicy for_ranks(int ranks_on_this_host, int cores);
};

class Barrier;
class Control;
class MappedMemory;
struct Note;

class Group {
 public:
  virtual ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Collective; the same size on every rank (RankError naming both otherwise). Zeroed,
  // page-aligned, every page reserved: a shortage is a StartupError naming needed and available
  // bytes on every rank, never a later bus error. RankError naming a rank that does not come before
  // the deadline.
  std::shared_ptr<SymmetricBuffer> allocate(std::size_t bytes, device::Deadline deadline);

  // Collective: a group of those ranks that give the same `color`, ordered by (key, rank); nullptr
  // for a negative one. An abort of this group ends the new one too, not the other way round.
  std::unique_ptr<Group> split(int color, int key, device::Deadline deadline);

  // Waits until `ready(value of the signal)`, with acquire; false when the deadline passed first.
  // `signal` lies in memory of this group; writers use post(signal, value). Throws RankError with
  // the first cause when the group was aborted. A condition that already holds returns at once,
  // aborted or not. Allocates nothing unless it throws.
  template <class Ready>
  bool wait_until(Signal& signal, Ready&& ready, device::Deadline deadline) const {
    std::uint32_t seen = signal.value.load(std::memory_order_acquire);
    if (ready(seen)) return true;
    for (int looks = spin_budget_.looks(); looks > 0; --looks) {
      base::spin_pause();
      seen = signal.value.load(std::memory_order_acquire);
      if (ready(seen)) {
        spin_budget_.paid();
        return true;
      }
    }
    spin_budget_.failed();
    for (int left = yield_budget_.yields(); left > 0 && yield_budget_.yield(); --left) {
      seen = signal.value.load(std::memory_order_acquire);
      if (ready(seen)) return true;
    }
    for (;;) {
      const Slept slept = sleep(signal, seen, deadline);
      seen = signal.value.load(std::memory_order_acquire);
      if (ready(seen)) return true;
      if (slept == Slept::aborted) throw_if_aborted();
      if (slept == Slept::too_late) return false;
    }
  }

  // The same, and throws what `late()` returns when the deadline passed.
  template <class Ready, class Late>
  void wait(Signal& signal, Ready&& ready, device::Deadline deadline, Late&& late) const {
    if (!wait_until(signal, ready, deadline)) throw late();
  }

  // The first cause wins; ends every wait of every rank, now and later: those asleep within 20 ms.
  // `rank` is the one at fault, -1 where it is not known; a cause of more than 2,000 characters is
  // cut.
  void abort(int rank, const std::string& cause);
  bool aborted() const;
  void throw_if_aborted() const;

  // By the rank's own thread, not while a rank waits. At first the policy takes it that every rank
  // may use the cores that this one may.
  void set_wait_policy(WaitPolicy policy);

 protected:
  Group(int rank, int size, std::shared_ptr<Control> control);

  const std::shared_ptr<Control>& control() const { return control_; }

  // Rank 0: makes `bytes` of memory for the whole group.
  virtual std::shared_ptr<MappedMemory> make_memory(std::size_t bytes) = 0;
  // Between two agreements of all ranks: rank 0 gives what it made, each rank gets it.
  virtual std::shared_ptr<MappedMemory> share_memory(std::shared_ptr<MappedMemory> made,
                                                     std::size_t bytes,
                                                     device::Deadline deadline) = 0;
  // The rank that leads a new group makes what the others will join, and the address that they need
  // for it. Then, after an agreement of all ranks, the members join: `members` are their ranks
  // here, in the order of the new group, in which this one is `new_rank`; the first of them leads.
  virtual std::string prepare_split(int size) = 0;
  virtual std::unique_ptr<Group> join_split(const std::vector<int>& members, int new_rank,
                                            const std::string& address,
                                            device::Deadline deadline) = 0;

 private:
  // Sleeps while the signal is `seen`, for a bounded while; not at all when the deadline has passed
  // or the group was aborted.
  enum class Slept { once, too_late, aborted };
  Slept sleep(Signal& signal, std::uint32_t seen, device::Deadline deadline) const;
  // All ranks tell each other `mine`; every rank gets all, by rank.
  std::vector<Note> agree(const Note& mine, device::Deadline deadline);

  int rank_;
  int size_;
  mutable SpinBudget spin_budget_;
  mutable YieldBudget yield_budget_;
  std::shared_ptr<Control> control_;
  std::unique_ptr<Barrier> agreement_;
  int agreements_ = 0;
  std::mutex abort_mutex_;
  bool has_given_cause_ = false;
};

// One Group for each rank, all in this process.
std::vector<std::unique_ptr<Group>> make_thread_groups(int size);

// Groups of threads that find each other by a name. Thread-safe.
class ThreadGroups {
 public:
  // Every rank of the group takes its Group once. Does not wait for the others.
  std::unique_ptr<Group> take(const std::string& name, int rank, int size);

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::unique_ptr<Group>>> groups_;
};

// Collective over the ranks of the store; `prefix` separates groups that share a store and is used
// once. Throws StartupError naming the ranks that are missing after `start_timeout`.
std::unique_ptr<Group> make_process_group(Store& store, const std::string& prefix, int rank,
                                          int size, std::chrono::milliseconds start_timeout);

}  // namespace lockstep::comm

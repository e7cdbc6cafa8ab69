// Group: ranks on one host that share memory. The ground under the own collectives.
//
// Made by make_thread_groups() for ranks that are threads of one process, or by make_process_group()
// for ranks that are processes. Everything above is written once against this class.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/memory/symmetric_buffer.h"
#include "comm/store/store.h"
#include "framework/base/error.h"
#include "framework/device/stream.h"

namespace lockstep::comm {

// How long a waiting rank spins before it sleeps. With more ranks than cores spinning only takes time
// from the rank that is waited for.
struct WaitPolicy {
  int spins = 0;
  static WaitPolicy for_ranks(int ranks_on_this_host);  // looks at the cores this process may use
};

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Collective; zeroed; every page reserved (a shortage is a StartupError naming needed and available
  // bytes, never a later bus error).
  virtual std::shared_ptr<SymmetricBuffer> allocate(std::size_t bytes) = 0;

  // Waits until `ready(word.load(acquire))`. `word` lies in memory of this group. Throws RankError when
  // the group was aborted (its first cause) or the deadline passed (naming `suspect` and `what`).
  // A writer stores with release and then calls wake().
  virtual void wait(const std::atomic<std::uint32_t>& word, const std::function<bool(std::uint32_t)>& ready,
                    device::Deadline deadline, int suspect, const std::function<std::string()>& what) = 0;
  virtual void wake(std::atomic<std::uint32_t>& word) = 0;

  // The first cause wins; ends every wait of every rank, now and later. Callable from any thread.
  virtual void abort(int rank, const std::string& cause) = 0;
  virtual bool aborted() const = 0;
  virtual void throw_if_aborted() const = 0;
};

// One Group for each rank, all in this process.
std::vector<std::unique_ptr<Group>> make_thread_groups(int size);

// Collective over the ranks of the store; `prefix` separates groups that share a store. Throws
// StartupError naming the ranks that are missing after `start_timeout`.
std::unique_ptr<Group> make_process_group(Store& store, const std::string& prefix, int rank, int size,
                                          std::chrono::milliseconds start_timeout);

}  // namespace lockstep::comm

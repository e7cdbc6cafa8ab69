// FirstCause: why the ranks of a group had to stop, told to all of them through the store.
//
// The ranks of a library that passes messages share no memory in which to leave a cause, and a
// broken connection says only that something is wrong. So whoever fails writes the cause into the
// store before it closes its connections, and whoever finds a connection broken looks there first.
// Of several causes the first wins. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/store/store.h"
#include "framework/base/error.h"

namespace lockstep::comm {

class FirstCause : public std::enable_shared_from_this<FirstCause> {
 public:
  // `key` is this group's own in the store, which outlives this.
  FirstCause(Store& store, std::string key) : store_(store), key_(std::move(key)) {}

  // Called once, when a cause is offered here or to a group that this one was split off. Must not
  // call this object.
  using EndWaits = std::function<void(const RankError& cause)>;
  void on_offer(EndWaits end_waits);

  // Leaves a cause; only the first counts. Does not throw.
  void offer(int rank, const std::string& text) noexcept;

  // The cause as far as this rank has heard it, without asking the store.
  std::optional<RankError> heard() const;
  // Asks the store too, until there is a cause or `patience` has passed.
  std::optional<RankError> find(std::chrono::milliseconds patience);

  // The cause of a group split off this one: an offer here reaches it too, not the other way round.
  std::shared_ptr<FirstCause> make_part(std::string key);

 private:
  std::optional<RankError> ask_store();

  Store& store_;
  std::string key_;
  mutable std::mutex mutex_;
  std::optional<RankError> cause_;
  EndWaits end_waits_;
  std::vector<std::weak_ptr<FirstCause>> parts_;
  std::shared_ptr<FirstCause> whole_;  // that this one is a part of
};

}  // namespace lockstep::comm

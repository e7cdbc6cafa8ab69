// LaunchedWorker: what workers have in common whether they are processes or threads.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "train/launch/failure.h"
#include "train/launch/launch.h"
#include "train/launch/scoreboard.h"
#include "train/launch/worker.h"

namespace lockstep::train {

// The callbacks of Worker::on_abort. Thread-safe; a callback must not subscribe or unsubscribe.
class AbortCallbacks {
 public:
  Worker::Subscription add(Worker::OnAbort callback);
  void call(int rank, const std::string& cause);  // only the first call counts

 private:
  std::mutex mutex_;
  std::optional<std::pair<int, std::string>> cause_;
  std::list<Worker::OnAbort> callbacks_;
};

class LaunchedWorker : public Worker {
 public:
  LaunchedWorker(int rank, Scoreboard& scoreboard) : rank_(rank), scoreboard_(scoreboard) {}

  int rank() const override { return rank_; }
  int world_size() const override { return scoreboard_.ranks(); }
  Subscription on_abort(OnAbort abort) override { return callbacks_.add(std::move(abort)); }
  bool stop_requested() const override { return scoreboard_.stop_signal() != 0; }
  void report_step(std::int64_t step) override { scoreboard_.set_step(rank_, step); }
  std::int64_t step_of(int rank) const override { return scoreboard_.step(rank); }
  void report_failure(const std::exception& error) override;

  // Runs the rank's code and returns the exit code of the rank.
  int run(const Body& body);

  // The launcher says that `rank` failed or was lost.
  void abort(int rank, const std::string& cause) { callbacks_.call(rank, cause); }

 protected:
  virtual void send(const Failure& failure) = 0;  // to the launcher

 private:
  int rank_;
  Scoreboard& scoreboard_;
  AbortCallbacks callbacks_;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace lockstep::train

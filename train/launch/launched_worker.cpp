#include "train/launch/launched_worker.h"

#include "train/exit_code.h"

namespace lockstep::train {

Worker::Subscription AbortCallbacks::add(Worker::OnAbort callback) {
  const std::lock_guard lock(mutex_);
  if (cause_) callback(cause_->first, cause_->second);
  const auto place = callbacks_.insert(callbacks_.end(), std::move(callback));
  return {this, [place](AbortCallbacks* self) {
            const std::lock_guard unsubscribe(self->mutex_);
            self->callbacks_.erase(place);
          }};
}

void AbortCallbacks::call(int rank, const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (cause_) return;
  cause_.emplace(rank, cause);
  for (const Worker::OnAbort& callback : callbacks_) callback(rank, cause);
}

void LaunchedWorker::report_failure(const std::exception& error) {
  if (has_failed_.exchange(true)) return;
  Failure failure = failure_of(rank_, error);
  failure.order = scoreboard_.next_failure();
  failure.step = scoreboard_.step(rank_);
  send(failure);
}

int LaunchedWorker::run(const Body& body) {
  try {
    body(*this);
    scoreboard_.set_done(rank_);
    return exit_done;
  } catch (const std::exception& error) {
    report_failure(error);
    return exit_code_of(error);
  }
}

}  // namespace lockstep::train

#include "comm/mpi/start_watch.h"

#include <fmt/format.h>

#include <vector>

namespace lockstep::comm {
namespace {

// Ranks notice the end of the time at slightly different moments.
constexpr std::chrono::milliseconds patience_for_answers{700};

}  // namespace

StartWatch::StartWatch(Store& store, int rank, int size, std::chrono::milliseconds timeout,
                       OnStuck on_stuck)
    : timeout_(timeout),
      on_stuck_(std::move(on_stuck)),
      roll_call_(store, "mpi/start", rank, size),
      thread_([this] { watch(); }) {}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    started_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool StartWatch::started_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return started_; });
}

void StartWatch::watch() {
  constexpr std::uint64_t start = 0;  // the only call that the roll is called for
  // Each answers well before it asks.
  if (started_within(timeout_ / 2)) return;
  roll_call_.answer(start);
  if (started_within(timeout_ - timeout_ / 2)) return;
  const std::vector<int> missing = roll_call_.missing(start, patience_for_answers);
  if (started_within(std::chrono::milliseconds(0)) || !on_stuck_) return;
  const double seconds = std::chrono::duration<double>(timeout_).count();
  on_stuck_(StartupError(
      missing.empty()
          ? fmt::format("backend mpi: MPI did not start within {:g} s, although all ranks wait for "
                        "it",
                        seconds)
          : fmt::format("backend mpi: rank {} did not come to the start of MPI within {:g} s",
                        missing.front(), seconds)));
}

}  // namespace lockstep::comm

#include "train/launch/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

namespace lockstep::train {
namespace {

// "rank 3", "ranks 1, 2 and 5"
std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "),
                     ranks.back());
}

std::string signal_text(int signal) {
  return signal == SIGINT ? "SIGINT" : "SIGTERM";
}

}  // namespace

int Supervisor::run() {
  while (!alive().empty()) {
    wait();
    take_signals();
    take_happenings();
    // The last of them may have ended just now, as late as it was.
    const std::vector<int> late = alive();
    if (!late.empty() && kill_at_ && Clock::now() >= *kill_at_) {
      log_.warning("{} did not end in time and had to be killed", ranks_text(late));
      kill();
    }
  }
  take_happenings();
  return report();
}

void Supervisor::wait() const {
  std::vector<pollfd> sources = ranks_.sources();
  sources.push_back({.fd = signals_.descriptor(), .events = POLLIN, .revents = 0});
  int timeout = -1;
  if (kill_at_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - Clock::now());
    timeout = static_cast<int>(std::max<std::int64_t>(0, left.count()));
  }
  ::poll(sources.data(), sources.size(),
         timeout);  // an interruption is one more look at everything
}

void Supervisor::take_signals() {
  while (const int signal = signals_.take()) {
    if (signal != SIGCHLD) ask_to_stop(signal);
  }
}

void Supervisor::ask_to_stop(int signal) {
  const bool is_ending = scoreboard_.stop_signal() != 0 || !failures_.empty();
  if (scoreboard_.stop_signal() == 0) scoreboard_.ask_to_stop(signal);
  const std::vector<int> running = alive();
  const bool has_begun =
      std::ranges::all_of(running, [&](int rank) { return scoreboard_.step(rank) > 0; });
  if (is_ending || !has_begun) {  // there is nothing to wait for, or the user waits no longer
    kill();
    return;
  }
  log_.info("{}: stopping at a common step; a second one ends the run at once",
            signal_text(signal));
  kill_before(Clock::now() + options_.stop_grace);
}

void Supervisor::take_happenings() {
  const Happenings happenings = ranks_.collect();
  if (happenings.asked_to_terminate && scoreboard_.stop_signal() == 0) ask_to_stop(SIGTERM);
  for (const Failure& failure : happenings.failures) {
    failures_.push_back(failure);
    if (failures_.size() == 1) abort_others(failure);
  }
}

void Supervisor::abort_others(const Failure& failure) {
  const int guilty = failure.accused == Failure::nobody ? failure.rank : failure.accused;
  const std::string cause = describe(failure);
  for (const int rank : alive()) {
    if (rank != failure.rank) ranks_.abort(rank, guilty, cause);
  }
  kill_before(Clock::now() + options_.abort_grace);
}

void Supervisor::kill_before(Clock::time_point deadline) {
  if (!kill_at_ || deadline < *kill_at_) kill_at_ = deadline;
}

void Supervisor::kill() {
  kill_at_.reset();
  if (ranks_.kill()) return;
  const int code = report();
  log_.flush();
  std::_Exit(code);
}

std::vector<int> Supervisor::alive() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < options_.workers; ++rank) {
    if (ranks_.is_alive(rank)) ranks.push_back(rank);
  }
  return ranks;
}

int Supervisor::report() const {
  const int signal = scoreboard_.stop_signal();
  if (!failures_.empty()) {
    const Failure& cause = first_cause(failures_);
    report_cause(cause);
    return cause.exit_code;
  }
  if (signal == 0) return 0;
  log_.info("stopped by {} {}", signal_text(signal), describe_step(scoreboard_.step(0)));
  return 128 + signal;
}

void Supervisor::report_cause(const Failure& cause) const {
  const int guilty = cause.accused == Failure::nobody ? cause.rank : cause.accused;
  std::string text = describe(cause);
  if (!options_.log_folder.empty()) {
    text += fmt::format("; log of rank {}: {}", guilty, rank_log(options_.log_folder, guilty));
  }
  log_.error("{}", text);
}

}  // namespace lockstep::train

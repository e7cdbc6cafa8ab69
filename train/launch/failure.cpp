#include "train/launch/failure.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "framework/base/error.h"
#include "train/exit_code.h"

namespace lockstep::train {

Failure failure_of(int rank, const std::exception& error) {
  Failure failure{.rank = rank, .exit_code = exit_code_of(error), .message = error.what()};
  if (const auto* other = dynamic_cast<const RankError*>(&error);
      other != nullptr && other->rank() >= 0 && other->rank() != rank) {
    failure.accused = other->rank();
  }
  return failure;
}

const Failure& first_cause(const std::vector<Failure>& failures) {
  const auto earliest_of = [&](int rank) {
    const Failure* earliest = nullptr;
    for (const Failure& failure : failures) {
      if (failure.rank == rank && (earliest == nullptr || failure.order < earliest->order)) {
        earliest = &failure;
      }
    }
    return earliest;
  };
  const Failure* cause = &*std::ranges::min_element(failures, {}, &Failure::order);
  std::set<int> seen = {cause->rank};
  while (cause->accused != Failure::nobody && seen.insert(cause->accused).second) {
    const Failure* const deeper = earliest_of(cause->accused);
    if (deeper == nullptr) break;
    cause = deeper;
  }
  return *cause;
}

std::string describe_death(int status) {
  if (!WIFSIGNALED(status)) {
    return fmt::format("exited with code {} before its work was done", WEXITSTATUS(status));
  }
  const int signal = WTERMSIG(status);
  const char* const name = sigabbrev_np(signal);
  return fmt::format("was killed by signal {} (SIG{})", signal, name == nullptr ? "?" : name);
}

std::string describe_step(std::int64_t step) {
  return step > 0 ? fmt::format("in step {}", step) : "before its first step";
}

std::string describe(const Failure& failure) {
  const std::string step = describe_step(failure.step);
  if (failure.died) return fmt::format("rank {} {} {}", failure.rank, failure.message, step);
  return fmt::format("rank {} {}: {}", failure.rank, step, failure.message);
}

}  // namespace lockstep::train

#include "comm/ring/cuda/failure.h"

#include <fmt/format.h>

#include <atomic>
#include <span>

#include "comm/host_communicator.h"

namespace lockstep::comm::ring::cuda {

std::optional<RankError> Failure::find() {
  const std::lock_guard lock(mutex_);
  if (error_) return error_;
  if (const auto found = from_kernels()) group_->abort(found->rank(), found->what());
  try {
    group_->throw_if_aborted();
  } catch (const RankError& first) {
    error_ = first;
    std::atomic_ref(control().abort).store(1, std::memory_order_relaxed);
  }
  return error_;
}

void Failure::throw_if_any() {
  if (const auto error = find()) throw RankError(error->rank(), error->what());
}

void Failure::offer(int rank, const std::string& cause) {
  group_->abort(rank, cause);
  find();
}

std::optional<RankError> Failure::from_kernels() const {
  Control& found = control();
  const auto outcome =
      static_cast<Outcome>(std::atomic_ref(found.outcome).load(std::memory_order_acquire));
  if (outcome == Outcome::none || outcome == Outcome::aborted)
    return std::nullopt;  // the group knows why
  Collective call;
  call.signature = found.signatures[group_->rank()];
  call.timeout = timeout_;
  switch (outcome) {
    case Outcome::late_to_arrive:
      return late(call, found.peer, "arrive at");
    case Outcome::late_to_finish:
      return late(call, found.peer, "finish");
    case Outcome::not_vouched:
      return RankError(-1, fmt::format("{} failed on another host: number {} of those that this "
                                       "rank exchanges data with did not vouch for its part",
                                       to_string(call.signature), found.peer));
    case Outcome::none:
    case Outcome::aborted:
    case Outcome::disagree:
      break;
  }
  try {
    check_agreement(std::span(found.signatures, static_cast<std::size_t>(group_->size())));
  } catch (const RankError& error) {
    return error;
  }
  return RankError(-1, "ranks disagree about " + to_string(call.signature));
}

}  // namespace lockstep::comm::ring::cuda

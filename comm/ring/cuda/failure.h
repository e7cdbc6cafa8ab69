// Why the collectives of one communicator ended: what the kernels, the group or this rank found
// first.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "comm/memory/group.h"
#include "comm/ring/cuda/world.h"

namespace lockstep::comm::ring::cuda {

// Thread-safe. Works keep it beyond their communicator.
class Failure {
 public:
  Failure(std::shared_ptr<Group> group, std::shared_ptr<Control> control,
          std::chrono::milliseconds timeout)
      : group_(std::move(group)), control_(std::move(control)), timeout_(timeout) {}

  Control& control() const { return *control_; }
  // Looks at what there is to see: what a kernel has found is told to all ranks, what others have
  // told ends this rank's kernels. The first cause of all ranks; nothing while there is none.
  std::optional<RankError> find();
  void throw_if_any();
  void offer(int rank, const std::string& cause);

 private:
  std::optional<RankError> from_kernels() const;

  std::shared_ptr<Group> group_;
  std::shared_ptr<Control> control_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::optional<RankError> error_;
};

}  // namespace lockstep::comm::ring::cuda

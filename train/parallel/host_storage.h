// HostStorage: the loader's shared storage, over memory that the workers of a host share.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "comm/memory/barrier.h"
#include "comm/memory/group.h"
#include "data/shared_storage.h"

namespace lockstep::train {

class HostStorage final : public data::SharedStorage {
 public:
  // Collective. `timeout`: how long a barrier waits for the last worker.
  HostStorage(std::unique_ptr<comm::Group> group, std::chrono::milliseconds timeout);

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::span<std::byte> allocate(std::size_t bytes) override;
  void barrier() override { meet("while the data set was read"); }
  void check() const override { group_->throw_if_aborted(); }

  // No worker leaves before all have come. `when`: for the error that names one that does not.
  void meet(std::string_view when);
  comm::Group& group() { return *group_; }

 private:
  std::unique_ptr<comm::Group> group_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<comm::SymmetricBuffer> barrier_memory_;
  comm::Barrier barrier_;
  std::vector<std::shared_ptr<comm::SymmetricBuffer>> blocks_;
};

}  // namespace lockstep::train

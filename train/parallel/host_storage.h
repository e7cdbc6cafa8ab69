// HostStorage: the loader's shared storage, over memory that the workers of a host share.
#pragma once

#include <chrono>
#include <memory>
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
  void barrier() override;
  void check() const override { group_->throw_if_aborted(); }

  comm::Group& group() { return *group_; }

 private:
  std::unique_ptr<comm::Group> group_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<comm::SymmetricBuffer> barrier_memory_;
  comm::Barrier barrier_;
  std::vector<std::shared_ptr<comm::SymmetricBuffer>> blocks_;
};

}  // namespace lockstep::train

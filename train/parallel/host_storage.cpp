#include "train/parallel/host_storage.h"

#include <fmt/format.h>
#include <unistd.h>

#include "framework/device/allocator.h"

namespace lockstep::train {

HostStorage::HostStorage(std::unique_ptr<comm::Group> group, std::chrono::milliseconds timeout)
    : group_(std::move(group)),
      timeout_(timeout),
      barrier_memory_(
          group_->allocate(comm::Barrier::bytes(group_->size()), device::Clock::now() + timeout)),
      barrier_(*group_, barrier_memory_->part(0)) {}

std::span<std::byte> HostStorage::allocate(std::size_t bytes) {
  const auto ranks = static_cast<std::size_t>(size());
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t part = device::align_up((bytes + ranks - 1) / ranks, page);
  blocks_.push_back(group_->allocate(part, device::Clock::now() + timeout_));
  // Parts of whole pages lie one after the other, so that together they are the block.
  return {blocks_.back()->part(0).data(), bytes};
}

void HostStorage::meet(std::string_view when) {
  barrier_.arrive_and_wait(device::Clock::now() + timeout_, [&](int rank) {
    return RankError(rank, fmt::format("rank {} did not arrive {}, within {:.1f} s", rank, when,
                                       std::chrono::duration<double>(timeout_).count()));
  });
}

}  // namespace lockstep::train

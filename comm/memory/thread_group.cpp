// Ranks that are threads of one process.
#include "comm/memory/control.h"
#include "comm/memory/group.h"
#include "comm/memory/mapped_memory.h"

namespace lockstep::comm {
namespace {

// What the ranks of one group hold together. The slots are written by one rank and read by the
// others, with an agreement of all ranks between.
struct Joint {
  Joint(int size, std::shared_ptr<const Control> parent)
      : control(std::make_shared<Control>(MappedMemory::make_private(Control::bytes(size)), size,
                                          std::move(parent))),
        splits(static_cast<std::size_t>(size)) {}

  std::shared_ptr<Control> control;
  std::weak_ptr<MappedMemory> memory;  // of the latest allocation; lives as long as its users
  std::vector<std::shared_ptr<Joint>>
      splits;  // the latest group that each rank led out of this one
};

class ThreadGroup final : public Group {
 public:
  ThreadGroup(int rank, int size, std::shared_ptr<Joint> joint)
      : Group(rank, size, joint->control), joint_(std::move(joint)) {}

 private:
  std::shared_ptr<MappedMemory> make_memory(std::size_t bytes) override {
    auto memory = std::make_shared<MappedMemory>(MappedMemory::make_private(bytes));
    joint_->memory = memory;
    return memory;
  }

  std::shared_ptr<MappedMemory> share_memory(std::shared_ptr<MappedMemory> made, std::size_t,
                                             device::Deadline) override {
    if (!made) made = joint_->memory.lock();
    // An abort may have reached rank 0 before it could give the memory.
    if (!made) throw RankError(0, "rank 0 left the allocation of the group's memory");
    return made;
  }

  std::string prepare_split(int size) override {
    joint_->splits[static_cast<std::size_t>(rank())] = std::make_shared<Joint>(size, control());
    return {};
  }

  std::unique_ptr<Group> join_split(const std::vector<int>& members, int new_rank,
                                    const std::string&, device::Deadline) override {
    const auto leader = static_cast<std::size_t>(members.front());
    return std::make_unique<ThreadGroup>(new_rank, static_cast<int>(members.size()),
                                         joint_->splits[leader]);
  }

  std::shared_ptr<Joint> joint_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> make_thread_groups(int size) {
  const auto joint = std::make_shared<Joint>(size, nullptr);
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < size; ++rank)
    groups.push_back(std::make_unique<ThreadGroup>(rank, size, joint));
  return groups;
}

std::unique_ptr<Group> ThreadGroups::take(const std::string& name, int rank, int size) {
  const std::lock_guard lock(mutex_);
  auto& groups = groups_[name];
  if (groups.empty()) groups = make_thread_groups(size);
  return std::move(groups[static_cast<std::size_t>(rank)]);
}

}  // namespace lockstep::comm

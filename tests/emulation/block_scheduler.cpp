#include "tests/emulation/block_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::emulation {
namespace {

// How many steps blocks whose threads all wait go without a look at what they wait for.
constexpr unsigned steps_between_looks = 64;

}  // namespace

unsigned DeviceLimits::blocks_per_multiprocessor(unsigned threads, std::size_t shared_bytes) const {
  if (threads == 0 || threads > threads_per_block || shared_bytes > shared_bytes_per_block) {
    return 0;
  }
  const std::size_t by_memory = shared_bytes == 0 ? each.blocks : each.shared_bytes / shared_bytes;
  return static_cast<unsigned>(
      std::min<std::size_t>({each.blocks, each.threads / threads, by_memory}));
}

BlockScheduler::BlockScheduler(int devices, const DeviceLimits& limits, BlockPolicy policy,
                               BlockServices& services)
    : limits_(limits),
      policy_(policy),
      services_(services),
      multiprocessors_(static_cast<std::size_t>(devices)) {
  for (auto& device : multiprocessors_) {
    device.resize(static_cast<std::size_t>(limits.multiprocessors));
  }
}

void BlockScheduler::add(Execution& execution) {
  unplaced_.push_back(&execution);
  room_changed_ = true;
}

void BlockScheduler::release() {
  hold_.reset();
  room_changed_ = true;
  for (Resident& resident : held_) {
    (resident.block->can_step() ? runnable_ : waiting_).push_back(std::move(resident));
  }
  held_.clear();
}

void BlockScheduler::hold_blocks() {
  for (auto* const blocks : {&runnable_, &waiting_}) {
    const auto first_held =
        std::partition(blocks->begin(), blocks->end(), [this](const Resident& resident) {
          return resident.block->execution().work->device != hold_->device;
        });
    std::move(first_held, blocks->end(), std::back_inserter(held_));
    blocks->erase(first_held, blocks->end());
  }
}

bool BlockScheduler::can_step() {
  if (hold_ && hold_->steps == 0) hold_blocks();
  if (room_changed_) place_blocks();
  if (runnable_.empty() || ++steps_since_look_ >= steps_between_looks) wake_waiting();
  return !runnable_.empty();
}

// Older kernels and those of higher priority come first, but not always: hardware promises neither.
void BlockScheduler::place_blocks() {
  room_changed_ = false;
  std::vector<Execution*> order = unplaced_;
  if (services_.random().once_in(4)) {
    services_.random().shuffle(order);
  } else {
    std::stable_sort(order.begin(), order.end(), [](const Execution* a, const Execution* b) {
      return a->priority < b->priority;
    });
  }
  for (Execution* const execution : order) {
    const Work& work = *execution->work;
    if (is_held(work.device)) continue;
    while (execution->next_block < work.blocks()) {
      Multiprocessor* const multiprocessor = room_for(work);
      if (work.kind == Work::Kind::kernel && multiprocessor == nullptr) break;
      place(*execution, multiprocessor);
    }
  }
  std::erase_if(unplaced_, [](const Execution* execution) {
    return execution->next_block == execution->work->blocks();
  });
}

BlockScheduler::Multiprocessor* BlockScheduler::room_for(const Work& work) {
  if (work.kind != Work::Kind::kernel) return nullptr;
  auto& all = multiprocessors_[static_cast<std::size_t>(work.device)];
  const std::size_t first = services_.random().below(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    Multiprocessor& one = all[(first + i) % all.size()];
    if (one.blocks < limits_.each.blocks && one.threads + work.threads() <= limits_.each.threads &&
        one.shared_bytes + work.dynamic_shared_bytes <= limits_.each.shared_bytes) {
      return &one;
    }
  }
  return nullptr;
}

void BlockScheduler::place(Execution& execution, Multiprocessor* multiprocessor) {
  const Work& work = *execution.work;
  const std::uint64_t i = execution.next_block++;
  const Extent3 extent = work.grid_extent;
  const Extent3 index{static_cast<unsigned>(i % extent.x),
                      static_cast<unsigned>(i / extent.x % extent.y),
                      static_cast<unsigned>(i / extent.x / extent.y)};
  ++execution.live_blocks;
  if (multiprocessor != nullptr) {
    ++multiprocessor->blocks;
    multiprocessor->threads += work.threads();
    multiprocessor->shared_bytes += work.dynamic_shared_bytes;
  }
  runnable_.push_back({std::make_unique<Block>(services_, execution, index), multiprocessor,
                       1 + services_.random().next() / 2});
}

void BlockScheduler::wake_waiting() {
  steps_since_look_ = 0;
  if (!waiting_.empty()) services_.before_look();
  for (std::size_t i = 0; i < waiting_.size();) {
    waiting_[i].block->poll_parked();
    if (!waiting_[i].block->can_step()) {
      ++i;
      continue;
    }
    runnable_.push_back(std::move(waiting_[i]));
    waiting_[i] = std::move(waiting_.back());
    waiting_.pop_back();
  }
}

std::size_t BlockScheduler::choose() {
  Random& random = services_.random();
  if (policy_ == BlockPolicy::any) {
    constexpr std::size_t change_odds = 16;
    const bool stay = current_ < runnable_.size() && !random.once_in(change_odds);
    return stay ? current_ : random.below(runnable_.size());
  }
  const auto highest = std::max_element(
      runnable_.begin(), runnable_.end(),
      [](const Resident& a, const Resident& b) { return a.priority < b.priority; });
  constexpr std::size_t demotion_odds = 200;
  if (random.once_in(demotion_odds)) highest->priority = random.below(1000);
  return static_cast<std::size_t>(highest - runnable_.begin());
}

Execution* BlockScheduler::step() {
  current_ = choose();
  Block& block = *runnable_[current_].block;
  block.step();
  const Work& work = *block.execution().work;
  if (hold_ && hold_->device == work.device && hold_->steps > 0 &&
      work.kind == Work::Kind::kernel) {
    --hold_->steps;
  }
  if (block.can_step()) return nullptr;
  if (!block.finished()) {
    waiting_.push_back(std::move(runnable_[current_]));
    runnable_[current_] = std::move(runnable_.back());
    runnable_.pop_back();
    return nullptr;
  }
  Execution& execution = block.execution();
  retire(current_);
  const bool finished =
      --execution.live_blocks == 0 && execution.next_block == execution.work->blocks();
  return finished ? &execution : nullptr;
}

void BlockScheduler::retire(std::size_t resident) {
  const Resident gone = std::exchange(runnable_[resident], std::move(runnable_.back()));
  runnable_.pop_back();
  if (gone.multiprocessor == nullptr) return;
  const Work& work = *gone.block->execution().work;
  --gone.multiprocessor->blocks;
  gone.multiprocessor->threads -= work.threads();
  gone.multiprocessor->shared_bytes -= work.dynamic_shared_bytes;
  room_changed_ = true;
}

std::uint64_t BlockScheduler::next_deadline() const {
  std::uint64_t earliest = ~std::uint64_t{0};
  for (const Resident& resident : waiting_) {
    earliest = std::min(earliest, resident.block->next_deadline());
  }
  return earliest;
}

std::string BlockScheduler::describe_waits() const {
  std::string text;
  for (const Resident& resident : waiting_) text += resident.block->describe_waits();
  for (const Resident& resident : held_) {
    const Work& work = *resident.block->execution().work;
    text += fmt::format("  {} on device {}: the device is held\n", work.name, work.device);
  }
  for (const Execution* const execution : unplaced_) {
    const Work& work = *execution->work;
    text +=
        fmt::format("  {} on device {}: {} of its {} blocks wait for room on a multiprocessor\n",
                    work.name, work.device, work.blocks() - execution->next_block, work.blocks());
  }
  return text;
}

void BlockScheduler::drop_everything() {
  unplaced_.clear();
  runnable_.clear();
  waiting_.clear();
  held_.clear();
  for (auto& device : multiprocessors_) std::fill(device.begin(), device.end(), Multiprocessor{});
}

}  // namespace lockstep::emulation

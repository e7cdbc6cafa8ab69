#include "framework/device/allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <new>

#include "framework/device/graph.h"
#include "framework/device/out_of_memory.h"

namespace lockstep::device {

CachingAllocator::~CachingAllocator() {
  assert(statistics_.bytes_in_use == 0 && "a buffer outlives its allocator");
  release_cached_locked();
}

std::size_t CachingAllocator::size_class(std::size_t bytes) {
  constexpr std::size_t steps = 4;
  const std::size_t step = std::max(std::bit_floor(bytes) / steps, alignment);
  return align_up(bytes, step);
}

void* CachingAllocator::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  // Also keeps the rounding up from wrapping round.
  if (bytes > std::numeric_limits<std::size_t>::max() / 2)
    throw OutOfMemory(bytes, "the memory of a device");
  const std::size_t size = size_class(bytes);

  const std::lock_guard lock(mutex_);
  SizeClass& blocks = classes_[size];
  void* pointer = nullptr;
  if (open_ != nullptr && open_->thread_ == std::this_thread::get_id()) {
    pointer = allocate_reserved(size, blocks);
  } else if (blocks.free.empty()) {
    pointer = allocate_from_source(size, blocks);
  } else {
    pointer = blocks.free.back();
    blocks.free.pop_back();
  }
  ++statistics_.requests;
  statistics_.bytes_in_use += size;
  statistics_.peak_bytes_in_use = std::max(statistics_.peak_bytes_in_use, statistics_.bytes_in_use);
  return pointer;
}

void CachingAllocator::SizeClass::make_room() {
  if (free.capacity() == blocks) free.reserve(std::max<std::size_t>(8, 2 * blocks));
}

// What was freed since the reservation was opened goes first, so that it needs as little memory as
// the same work does without.
void* CachingAllocator::allocate_reserved(std::size_t size, SizeClass& blocks) {
  SizeClass& reserved = open_->classes_[size];
  if (!reserved.free.empty()) {
    void* const pointer = reserved.free.back();
    reserved.free.pop_back();
    return pointer;
  }
  if (blocks.free.empty()) {
    throw CaptureError(fmt::format(
        "a block of {} bytes is needed, and the cache has none: a capture takes its memory from "
        "what the same work used before",
        size));
  }
  reserved.make_room();
  reserved_.emplace(blocks.free.back(), open_);
  ++reserved.blocks;
  open_->bytes_ += size;
  void* const pointer = blocks.free.back();
  blocks.free.pop_back();
  return pointer;
}

void* CachingAllocator::allocate_from_source(std::size_t size, SizeClass& blocks) {
  blocks.make_room();
  void* pointer = nullptr;
  try {
    pointer = source_.allocate(size);
  } catch (const std::bad_alloc&) {
    release_cached_locked();
    pointer = source_.allocate(size);
  }
  ++blocks.blocks;
  ++statistics_.source_requests;
  statistics_.bytes_reserved += size;
  return pointer;
}

void CachingAllocator::deallocate(void* pointer, std::size_t bytes) noexcept {
  if (pointer == nullptr) return;
  const std::size_t size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  const auto reserved = reserved_.empty() ? reserved_.end() : reserved_.find(pointer);
  SizeClasses& classes = reserved == reserved_.end() ? classes_ : reserved->second->classes_;
  const auto found = classes.find(size);
  assert(found != classes.end() && "the block is not of this allocator");
  found->second.free.push_back(pointer);
  statistics_.bytes_in_use -= size;
}

AllocatorStatistics CachingAllocator::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void CachingAllocator::release_cached() {
  const std::lock_guard lock(mutex_);
  release_cached_locked();
}

void CachingAllocator::release_cached_locked() noexcept {
  for (auto& [size, blocks] : classes_) {
    for (void* const pointer : blocks.free) source_.deallocate(pointer, size);
    statistics_.bytes_reserved -= size * blocks.free.size();
    blocks.blocks -= blocks.free.size();
    blocks.free.clear();
  }
}

Reservation::Reservation(CachingAllocator& allocator)
    : allocator_(allocator), thread_(std::this_thread::get_id()) {
  const std::lock_guard lock(allocator_.mutex_);
  if (allocator_.open_ != nullptr)
    throw UsageError("memory is reserved for a graph already: one is captured at a time");
  allocator_.open_ = this;
}

Reservation::~Reservation() {
  close();
  const std::lock_guard lock(allocator_.mutex_);
  std::erase_if(allocator_.reserved_, [this](const auto& block) { return block.second == this; });
  for (auto& [size, blocks] : classes_) {
    auto& free = allocator_.classes_.find(size)->second.free;  // has room for all of its size
    free.insert(free.end(), blocks.free.begin(), blocks.free.end());
  }
}

void Reservation::close() {
  const std::lock_guard lock(allocator_.mutex_);
  if (allocator_.open_ == this) allocator_.open_ = nullptr;
}

}  // namespace lockstep::device

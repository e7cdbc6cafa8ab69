#include "framework/device/allocator.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <new>

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
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc();
  const std::size_t size = size_class(bytes);

  const std::lock_guard lock(mutex_);
  SizeClass& blocks = classes_[size];
  void* pointer = nullptr;
  if (blocks.free.empty()) {
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

void* CachingAllocator::allocate_from_source(std::size_t size, SizeClass& blocks) {
  if (blocks.free.capacity() == blocks.blocks) {
    blocks.free.reserve(std::max<std::size_t>(8, 2 * blocks.blocks));
  }
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
  const auto found = classes_.find(size);
  assert(found != classes_.end() && "the block is not of this allocator");
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

}  // namespace lockstep::device

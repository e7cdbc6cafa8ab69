#include "tests/emulation/memory_map.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "tests/emulation/patterns.h"
#include "tests/emulation/sanitizer.h"

namespace lockstep::emulation {
namespace {

constexpr std::size_t granule = 256;  // what cudaMalloc aligns to
constexpr std::size_t red_zone = 256;
constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t padded(std::size_t bytes) {
  return (bytes + granule - 1) / granule * granule;
}

// The bytes behind an allocation up to the end of its red zone.
std::size_t tail_bytes(const Allocation& allocation) {
  return padded(allocation.bytes) + red_zone - allocation.bytes;
}

void set_red_zones(const Allocation& allocation) {
  fill_red_zone(allocation.begin - red_zone, red_zone);
  fill_red_zone(allocation.begin + allocation.bytes, tail_bytes(allocation));
}

// Opening and closing memory costs time for each of its pages, so they had better be large ones,
// where the system has any.
std::byte* map_memory(std::size_t bytes) {
  const std::size_t mapped = bytes + huge_page;
  void* const memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* const first = static_cast<std::byte*>(memory);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(memory) % huge_page;
  if (before > 0) munmap(first, before);
  munmap(first + before + bytes, mapped - before - bytes);
  madvise(first + before, bytes, MADV_HUGEPAGE);
  return first + before;
}

}  // namespace

MemoryMap::MemoryMap(int devices, std::size_t device_bytes)
    : device_bytes_(device_bytes),
      // Room for red zones and fragments beyond what may be in use.
      arena_bytes_((2 * device_bytes + (std::size_t{64} << 20)) / huge_page * huge_page) {
  for (int i = 0; i <= devices; ++i) {
    arenas_.push_back({map_memory(arena_bytes_), 0, 0});
    if (i == 0) continue;
    mprotect(arenas_.back().begin, arena_bytes_, PROT_NONE);
    reach_.push_back(std::uint64_t{1} << (i - 1));
  }
}

MemoryMap::~MemoryMap() {
  for (const Arena& arena : arenas_) {
    unpoison(arena.begin, arena_bytes_);
    munmap(arena.begin, arena_bytes_);
  }
}

// The lowest address from arena.next on, then from the arena's beginning, where `room` bytes are
// free.
std::byte* MemoryMap::room_for(const Arena& arena, std::size_t room) const {
  const auto search = [&](std::byte* from, std::byte* end) -> std::byte* {
    for (auto next = allocations_.lower_bound(from); from + room <= end; ++next) {
      const bool last = next == allocations_.end() || next->first >= end;
      if (from + room <= (last ? end : next->first - red_zone)) return from;
      if (last) return nullptr;
      from = next->first + padded(next->second.bytes) + red_zone;
    }
    return nullptr;
  };
  std::byte* const end = arena.begin + arena_bytes_;
  std::byte* const found = search(arena.begin + arena.next, end);
  return found != nullptr ? found : search(arena.begin, end);
}

// The host's arena comes first, so device i's is the one after the i-th.
void MemoryMap::set_accessible(std::uint64_t devices) {
  devices &= used_;
  if (devices == accessible_) return;
  const auto is_open = [&](std::size_t i) { return (accessible_ >> i & 1u) != 0; };
  const auto to_open = [&](std::size_t i) { return (devices >> i & 1u) != 0; };
  for (std::size_t i = 0; i < reach_.size(); ++i) {
    if (is_open(i) == to_open(i)) continue;
    mprotect(arenas_[i + 1].begin, arena_bytes_, to_open(i) ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
  accessible_ = devices;
}

bool MemoryMap::set_peer_access(int device, int peer, bool allowed) {
  std::uint64_t& reach = reach_[static_cast<std::size_t>(device)];
  const std::uint64_t bit = std::uint64_t{1} << peer;
  if (((reach & bit) != 0) == allowed) return false;
  reach ^= bit;
  return true;
}

std::string MemoryMap::describe(const void* pointer) const {
  const std::optional<int> device = owner(pointer);
  if (!device || *device == on_host) return {};
  return fmt::format("{}, memory of device {}", pointer, *device);
}

void* MemoryMap::allocate(int device, std::size_t bytes) {
  if (device != on_host) used_ |= std::uint64_t{1} << device;
  open_all();
  Arena& arena = arenas_[static_cast<std::size_t>(device + 1)];
  if (bytes > device_bytes_ || arena.in_use + bytes > device_bytes_) return nullptr;
  const std::size_t room = red_zone + padded(bytes) + red_zone;
  std::byte* const found = room_for(arena, room);
  if (found == nullptr) return nullptr;
  arena.next = static_cast<std::size_t>(found - arena.begin) + room;
  arena.in_use += bytes;
  const Allocation allocation{found + red_zone, bytes, device, 0};
  allocations_[allocation.begin] = allocation;
  acquire(order());
  unpoison(found, room);
  set_red_zones(allocation);
  fill_with(uninitialised_global_pattern, allocation.begin, bytes);
  return allocation.begin;
}

bool MemoryMap::free(void* pointer) {
  open_all();
  const auto found = allocations_.find(static_cast<std::byte*>(pointer));
  if (found == allocations_.end()) return false;
  const Allocation& allocation = found->second;
  arenas_[static_cast<std::size_t>(allocation.device + 1)].in_use -= allocation.bytes;
  fill_with(freed_global_pattern, allocation.begin, allocation.bytes);
  poison(allocation.begin, padded(allocation.bytes));
  release(order());
  allocations_.erase(found);
  return true;
}

Allocation* MemoryMap::find(const void* pointer) {
  auto* const address = static_cast<std::byte*>(const_cast<void*>(pointer));
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  Allocation& allocation = std::prev(next)->second;
  return address <= allocation.begin + allocation.bytes ? &allocation : nullptr;
}

std::optional<int> MemoryMap::owner(const void* pointer) const {
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    const auto* const address = static_cast<const std::byte*>(pointer);
    if (address >= arenas_[i].begin && address < arenas_[i].begin + arena_bytes_) {
      return static_cast<int>(i) - 1;
    }
  }
  return std::nullopt;
}

std::string MemoryMap::damage() {
  open_all();
  std::string text;
  for (const auto& [begin, allocation] : allocations_) {
    const bool before = !is_red_zone(begin - red_zone, red_zone);
    const bool behind = !is_red_zone(begin + allocation.bytes, tail_bytes(allocation));
    if (!before && !behind) continue;
    text += fmt::format(
        "{} the {} bytes at {} of {}; ", before ? "before" : "behind", allocation.bytes,
        static_cast<const void*>(begin),
        allocation.device == on_host ? "the host" : fmt::format("device {}", allocation.device));
    set_red_zones(allocation);
  }
  return text;
}

}  // namespace lockstep::emulation

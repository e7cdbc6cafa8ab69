// Memory of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace lockstep::device {

// Every block starts at a multiple of this (a cache line pair, and what vector loads want).
inline constexpr std::size_t alignment = 128;

inline constexpr std::size_t align_up(std::size_t bytes, std::size_t to = alignment) {
  return (bytes + to - 1) / to * to;
}

class Allocator {
 public:
  virtual ~Allocator() = default;
  // Thread-safe. `bytes` == 0 gives nullptr. Throws std::bad_alloc.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* pointer, std::size_t bytes) noexcept = 0;
};

struct AllocatorStatistics {
  std::uint64_t requests = 0;  // calls of allocate()
  std::uint64_t source_requests =
      0;  // those that went to the source: none in a steady training step
  std::size_t bytes_in_use = 0;
  std::size_t bytes_reserved = 0;  // held from the source, in use or cached
  std::size_t peak_bytes_in_use = 0;
};

class Reservation;

// Keeps freed blocks by size class (powers of two, four steps to each doubling) and hands them out
// again. The source must outlive it; it must outlive the buffers taken from it.
class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(Allocator& source) : source_(source) {}
  ~CachingAllocator() override;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // When the source has no more, gives what is cached back to it and tries once again. Throws
  // CaptureError where a reservation is open and the cache has no block: the source is not asked
  // then.
  void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer,
                  std::size_t bytes) noexcept override;  // `bytes` as it was allocated
  AllocatorStatistics statistics() const;
  void release_cached();

  // The size of the block that serves a request; at least `bytes`, by at most a quarter or
  // `alignment` more.
  static std::size_t size_class(std::size_t bytes);

 private:
  friend class Reservation;

  struct SizeClass {
    std::vector<void*> free;
    std::size_t blocks =
        0;             // in use or free; `free` has capacity for all, so that freeing cannot fail
    void make_room();  // for one more
  };
  using SizeClasses = std::map<std::size_t, SizeClass>;

  void* allocate_from_source(std::size_t size, SizeClass& size_class);
  void* allocate_reserved(std::size_t size, SizeClass& size_class);
  void release_cached_locked() noexcept;

  Allocator& source_;
  mutable std::mutex mutex_;
  SizeClasses classes_;  // reserved blocks count too, but are not free
  AllocatorStatistics statistics_;
  Reservation* open_ = nullptr;
  std::unordered_map<void*, Reservation*> reserved_;  // blocks and whose they are
};

// Blocks kept for one user that knows them by their addresses: a captured graph. While it is open,
// what the thread that made it is handed is reserved: it comes from the cache, and when it is freed
// only that thread gets it again, and only while the reservation is open. The blocks go back to the
// cache with the reservation, those still in use when they are freed.
//
// One at a time is open. The allocator must outlive it.
class Reservation {
 public:
  explicit Reservation(CachingAllocator& allocator);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  void close();  // without effect when it is closed already
  std::size_t bytes() const { return bytes_; }

 private:
  friend class CachingAllocator;

  CachingAllocator& allocator_;
  std::thread::id thread_;
  CachingAllocator::SizeClasses classes_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::device

#include "framework/device/allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "framework/base/error.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/device/graph.h"

namespace lockstep::device {
namespace {

// Knows what it gave and refuses beyond a limit.
class CountingSource final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (bytes_ + bytes > limit) throw std::bad_alloc();
    void* const pointer = host_allocator().allocate(bytes);
    blocks_[pointer] = bytes;
    bytes_ += bytes;
    return pointer;
  }
  void deallocate(void* pointer, std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(pointer);
    if (block == blocks_.end() || block->second != bytes) {
      ADD_FAILURE() << "a block of " << bytes << " bytes was given back that was not handed out";
      return;
    }
    host_allocator().deallocate(pointer, bytes);
    bytes_ -= bytes;
    blocks_.erase(block);
  }
  std::size_t blocks() const { return blocks_.size(); }
  std::size_t bytes() const { return bytes_; }

  std::size_t limit = std::numeric_limits<std::size_t>::max();

 private:
  std::mutex mutex_;
  std::map<void*, std::size_t> blocks_;
  std::size_t bytes_ = 0;
};

bool is_aligned(const void* pointer, std::size_t boundary) {
  return std::bit_cast<std::uintptr_t>(pointer) % boundary == 0;
}

TEST(HostAllocator, AlignsBlocks) {
  for (const std::size_t bytes : {1u, 127u, 128u, 129u, 5000u, (2u << 20) - 1}) {
    void* const pointer = host_allocator().allocate(bytes);
    EXPECT_TRUE(is_aligned(pointer, alignment)) << bytes;
    std::memset(pointer, 1, bytes);
    host_allocator().deallocate(pointer, bytes);
  }
}

TEST(HostAllocator, AlignsBigBlocksToHugePages) {
  for (const std::size_t bytes : {2u << 20, (2u << 20) + 1, 10u << 20}) {
    void* const pointer = host_allocator().allocate(bytes);
    EXPECT_TRUE(is_aligned(pointer, 2u << 20)) << bytes;
    std::memset(pointer, 1, bytes);
    host_allocator().deallocate(pointer, bytes);
  }
}

TEST(HostAllocator, NothingAndTooMuch) {
  EXPECT_EQ(host_allocator().allocate(0), nullptr);
  host_allocator().deallocate(nullptr, 0);
  EXPECT_THROW(host_allocator().allocate(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
  try {
    host_allocator().allocate(std::size_t{1} << 60);
    ADD_FAILURE() << "there is that much";
  } catch (const std::bad_alloc& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("the memory of this host"),
                                               ::testing::HasSubstr("a block of 1.0 EiB")));
  }
}

TEST(CachingAllocator, SizeClasses) {
  EXPECT_EQ(CachingAllocator::size_class(1), 128u);
  EXPECT_EQ(CachingAllocator::size_class(128), 128u);
  EXPECT_EQ(CachingAllocator::size_class(129), 256u);
  EXPECT_EQ(CachingAllocator::size_class(512), 512u);
  EXPECT_EQ(CachingAllocator::size_class(1025), 1280u);
  EXPECT_EQ(CachingAllocator::size_class((1 << 20) + 1), (1u << 20) + (1u << 18));

  std::size_t last = 0;
  for (std::size_t bytes = 1; bytes < 100'000; ++bytes) {
    const std::size_t size = CachingAllocator::size_class(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_GE(size, last);
    ASSERT_EQ(size % alignment, 0u);
    ASSERT_LE(size, std::max(bytes + bytes / 4, align_up(bytes)));
    ASSERT_EQ(CachingAllocator::size_class(size), size);
    last = size;
  }
}

TEST(CachingAllocator, HandsOutTheSameBlockAgain) {
  CountingSource source;
  CachingAllocator allocator(source);
  void* const first = allocator.allocate(1000);
  allocator.deallocate(first, 1000);
  void* const second = allocator.allocate(900);  // of the same size class
  EXPECT_EQ(first, second);
  allocator.deallocate(second, 900);

  const AllocatorStatistics statistics = allocator.statistics();
  EXPECT_EQ(statistics.requests, 2u);
  EXPECT_EQ(statistics.source_requests, 1u);
  EXPECT_EQ(statistics.bytes_in_use, 0u);
  EXPECT_EQ(statistics.bytes_reserved, 1024u);
  EXPECT_EQ(statistics.peak_bytes_in_use, 1024u);
}

TEST(CachingAllocator, NothingIsNoBlock) {
  CountingSource source;
  CachingAllocator allocator(source);
  EXPECT_EQ(allocator.allocate(0), nullptr);
  allocator.deallocate(nullptr, 0);
  EXPECT_EQ(allocator.statistics().source_requests, 0u);
}

TEST(CachingAllocator, ReleasesWhatIsCachedAndNothingElse) {
  CountingSource source;
  {
    CachingAllocator allocator(source);
    void* const kept = allocator.allocate(300);
    void* const freed = allocator.allocate(70'000);
    allocator.deallocate(freed, 70'000);
    allocator.release_cached();
    EXPECT_EQ(source.blocks(), 1u);
    EXPECT_EQ(allocator.statistics().bytes_reserved, 384u);
    allocator.deallocate(kept, 300);
    EXPECT_EQ(source.blocks(), 1u);
  }
  EXPECT_EQ(source.blocks(), 0u);
}

TEST(CachingAllocator, TriesAgainWithoutTheCache) {
  CountingSource source;
  source.limit = 1 << 20;
  CachingAllocator allocator(source);
  allocator.deallocate(allocator.allocate(600'000), 600'000);
  void* const pointer =
      allocator.allocate(900'000);  // fits only once the other block is given back
  EXPECT_EQ(source.blocks(), 1u);
  EXPECT_THROW(allocator.allocate(900'000), std::bad_alloc);
  EXPECT_THROW(allocator.allocate(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
  EXPECT_EQ(allocator.statistics().bytes_in_use, source.bytes());
  allocator.deallocate(pointer, 900'000);
}

// A training step takes and gives back the same sizes in another order each time.
TEST(CachingAllocator, SteadyStateAsksTheSourceForNothing) {
  CountingSource source;
  CachingAllocator allocator(source);
  std::mt19937 random(3);
  std::vector<std::size_t> sizes(100);
  for (std::size_t& size : sizes)
    size = std::uniform_int_distribution<std::size_t>(1, 300'000)(random);
  const auto step = [&] {
    std::vector<void*> pointers;
    for (const std::size_t size : sizes) {
      pointers.push_back(allocator.allocate(size));
      std::memset(pointers.back(), 1, size);
    }
    for (std::size_t i = sizes.size(); i-- > 0;) allocator.deallocate(pointers[i], sizes[i]);
  };
  step();
  const AllocatorStatistics warm = allocator.statistics();
  EXPECT_EQ(warm.source_requests, sizes.size());
  for (int i = 0; i < 20; ++i) {
    std::shuffle(sizes.begin(), sizes.end(), random);
    step();
  }
  const AllocatorStatistics steady = allocator.statistics();
  EXPECT_EQ(steady.source_requests, warm.source_requests);
  EXPECT_EQ(steady.requests, 21 * sizes.size());
  EXPECT_EQ(steady.bytes_reserved, source.bytes());
}

TEST(CachingAllocator, ServesThreads) {
  CountingSource source;
  CachingAllocator allocator(source);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&allocator, seed] {
      std::mt19937 random(seed);
      std::vector<std::pair<unsigned char*, std::size_t>> held;
      const auto give_back = [&] {
        const auto [pointer, size] = held.back();
        held.pop_back();
        // Written by this thread only, if no block is handed out twice.
        EXPECT_EQ(pointer[0], seed);
        EXPECT_EQ(pointer[size - 1], seed);
        allocator.deallocate(pointer, size);
      };
      for (int i = 0; i < 2000; ++i) {
        if (held.empty() || random() % 2 == 0) {
          const std::size_t size = 1 + random() % 2000;
          auto* const pointer = static_cast<unsigned char*>(allocator.allocate(size));
          pointer[0] = static_cast<unsigned char>(seed);
          pointer[size - 1] = static_cast<unsigned char>(seed);
          held.emplace_back(pointer, size);
        } else {
          give_back();
        }
      }
      while (!held.empty()) give_back();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.statistics().bytes_in_use, 0u);
}

// A source, an allocator, and what tests do with them.
struct Reserving {
  CountingSource source;
  CachingAllocator allocator{source};
  void* take(std::size_t bytes) { return allocator.allocate(bytes); }
  void give(void* block, std::size_t bytes) { allocator.deallocate(block, bytes); }
  void cache(std::size_t bytes, int blocks) {
    std::vector<void*> taken;
    for (int i = 0; i < blocks; ++i) taken.push_back(take(bytes));
    for (void* const block : taken) give(block, bytes);
  }
};

TEST(ReservationTest, KeepsWhatWasAllocatedWhileItWasOpen) {
  Reserving memory;
  memory.cache(1000, 2);
  void* reserved = nullptr;
  {
    Reservation reservation(memory.allocator);
    reserved = memory.take(1000);
    memory.give(reserved, 1000);
    EXPECT_EQ(memory.take(900), reserved);  // again, before another one of the cache
    reservation.close();
    EXPECT_EQ(reservation.bytes(), 1024u);
    memory.give(reserved, 900);
    for (int i = 0; i < 3; ++i) {
      void* const other = memory.take(1000);
      EXPECT_NE(other, reserved);
      memory.give(other, 1000);
    }
    memory.allocator.release_cached();
    EXPECT_EQ(memory.source.blocks(), 1u);
    EXPECT_EQ(memory.allocator.statistics().bytes_in_use, 0u);
  }
  EXPECT_EQ(memory.take(1000), reserved);
  memory.give(reserved, 1000);
}

TEST(ReservationTest, ABlockInUseGoesBackWhenItIsFreed) {
  Reserving memory;
  memory.cache(5000, 1);
  void* block = nullptr;
  {
    const Reservation reservation(memory.allocator);
    block = memory.take(5000);
  }
  memory.give(block, 5000);
  EXPECT_EQ(memory.take(5000), block);
  memory.give(block, 5000);
}

TEST(ReservationTest, TakesFromTheCacheOnly) {
  Reserving memory;
  memory.cache(1000, 1);
  Reservation reservation(memory.allocator);
  void* const block = memory.take(1000);
  EXPECT_THROW(memory.take(1000), CaptureError);
  EXPECT_THROW(memory.take(100), CaptureError);
  EXPECT_THROW(Reservation(memory.allocator), UsageError);
  reservation.close();
  memory.give(block, 1000);
  void* const other = memory.take(1000);
  EXPECT_EQ(memory.source.blocks(), 2u);
  memory.give(other, 1000);
}

TEST(ReservationTest, ConcernsItsThreadOnly) {
  Reserving memory;
  const Reservation reservation(memory.allocator);
  std::thread([&] {
    void* const block = memory.take(1000);
    memory.give(block, 1000);
  }).join();
  EXPECT_EQ(reservation.bytes(), 0u);
  void* const taken = memory.take(1000);
  EXPECT_EQ(reservation.bytes(), 1024u);
  memory.give(taken, 1000);
}

}  // namespace
}  // namespace lockstep::device

#include "framework/device/buffer.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "framework/device/cpu/cpu_context.h"

namespace lockstep::device {
namespace {

TEST(Buffer, LastCopyGivesTheBlockBack) {
  CachingAllocator allocator(host_allocator());
  std::optional<Buffer> first(std::in_place, allocator, 1000);
  const void* const data = first->data();
  EXPECT_NE(data, nullptr);
  EXPECT_EQ(first->bytes(), 1000u);
  EXPECT_EQ(first->use_count(), 1);
  {
    const Buffer second = *first;
    EXPECT_EQ(second.data(), data);
    EXPECT_EQ(second.use_count(), 2);
    first.reset();
    EXPECT_EQ(second.use_count(), 1);
    EXPECT_EQ(allocator.statistics().bytes_in_use, 1024u);
  }
  EXPECT_EQ(allocator.statistics().bytes_in_use, 0u);
}

TEST(Buffer, EmptyOnes) {
  CachingAllocator allocator(host_allocator());
  EXPECT_EQ(Buffer().data(), nullptr);
  EXPECT_EQ(Buffer().bytes(), 0u);
  const Buffer buffer(allocator, 0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.bytes(), 0u);
}

TEST(Buffer, KeepsAnOwnerAlive) {
  auto owner = std::make_shared<std::array<float, 4>>();
  const std::weak_ptr<std::array<float, 4>> watch = owner;
  {
    float* const inside = owner->data() + 1;
    const Buffer buffer(inside, 3 * sizeof(float), std::move(owner));
    EXPECT_EQ(buffer.data(), inside);
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace lockstep::device

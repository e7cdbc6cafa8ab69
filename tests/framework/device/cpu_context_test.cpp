#include "framework/device/cpu/cpu_context.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/device/buffer.h"
#include "framework/device/graph.h"
#include "framework/device/thread_pool.h"

namespace lockstep::device {
namespace {

TEST(Device, Names) {
  EXPECT_EQ(to_string(Device{}), "cpu");
  EXPECT_EQ(to_string(Device{DeviceKind::cuda, 3}), "cuda:3");
}

TEST(CpuContext, IsAWorldOfItsOwn) {
  const auto first = make_cpu_context(2);
  const auto second = make_cpu_context();
  EXPECT_EQ(first->device(), Device{});
  EXPECT_EQ(first->threads().size(), 2);
  EXPECT_EQ(second->threads().size(), 1);
  EXPECT_TRUE(first->compute_stream().is_inline());
  EXPECT_FALSE(first->make_stream("comm")->is_inline());

  const Buffer buffer(first->allocator(), 100);
  EXPECT_EQ(first->allocator().statistics().requests, 1u);
  EXPECT_EQ(second->allocator().statistics().requests, 0u);

  first->random().seed = 5;
  EXPECT_EQ(second->random().seed, 0u);
  first->set_recording(false);
  EXPECT_TRUE(second->recording());
}

TEST(CpuContext, RefusesNoThreads) {
  EXPECT_THROW(make_cpu_context(0), UsageError);
}

TEST(CpuContext, HasNoGraphs) {
  const auto context = make_cpu_context();
  EXPECT_FALSE(context->has_graphs());
  EXPECT_THROW(context->capture({}, [] {}), UsageError);
}

}  // namespace
}  // namespace lockstep::device

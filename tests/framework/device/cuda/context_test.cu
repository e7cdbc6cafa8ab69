// Contexts, streams, events and memory of a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_memory.h"
#include "framework/device/cuda/cuda_peer.h"
#include "framework/device/cuda/device.cuh"
#include "framework/device/thread_pool.h"
#include "tests/framework/device/cuda/device_fixture.h"

namespace lockstep::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class CudaContextTest : public OnDevice {};

__global__ void add(float* data, unsigned count, float value) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) data[i] += value;
}

// Long enough that what does not wait for it comes first.
__global__ void add_slowly(float* data, unsigned count, float value) {
  __nanosleep(200'000);
  __syncthreads();
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) data[i] += value;
}

TEST(CudaDevicesTest, AreDescribed) {
  const CudaDevices devices = cuda_devices();
  ASSERT_GT(devices.count, 0);
  EXPECT_EQ(devices.reason, "");
  for (int i = 0; i < devices.count; ++i) {
    const CudaDeviceDescription device = describe_cuda_device(i);
    EXPECT_NE(device.name, "");
    EXPECT_GT(device.memory_bytes, 0u);
    EXPECT_GT(device.multiprocessors, 0);
    EXPECT_GE(device.compute_major, 8);
  }
}

TEST(CudaDevicesTest, ThatDoNotExistAreRefusedByName) {
  const int count = cuda_devices().count;
  const std::string index = std::to_string(count);
  EXPECT_THAT([&] { make_cuda_context(count, 0); },
              ThrowsMessage<StartupError>(
                  AllOf(HasSubstr("cuda:" + index), HasSubstr("there are " + index + " GPUs"))));
  EXPECT_THROW(make_cuda_context(-1, 0), StartupError);
}

TEST_F(CudaContextTest, KnowsItsDevice) {
  EXPECT_EQ(context_->device(), (Device{DeviceKind::cuda, 0}));
  EXPECT_EQ(context_->threads().size(), 1);
  EXPECT_FALSE(context_->compute_stream().is_inline());
}

TEST_F(CudaContextTest, StreamsOfAnotherKindAreRefused) {
  class Other final : public Stream {
    void enqueue(std::function<void()>) override {}
    Event record() override { return {}; }
    void wait(const Event&) override {}
    void synchronize() override {}
  } other;
  EXPECT_THROW(cuda_stream(other), UsageError);
}

TEST_F(CudaContextTest, WorkOfAStreamGoesInOrder) {
  std::vector<float> values(1000, 1.0f);
  float* const data = upload(values);
  for (int i = 0; i < 5; ++i) {
    context_->compute_stream().enqueue([&] {
      launch(stream(), {1, 128}, add_slowly, data, 1000u, 1.0f);
    });
    launch(stream(), {1, 128}, add, data, 1000u, 0.5f);
  }
  EXPECT_EQ(download(data, values.size()), std::vector<float>(1000, 8.5f));
}

TEST_F(CudaContextTest, AnEventOrdersStreams) {
  float* const data = zeros<float>(1000);
  const std::unique_ptr<Stream> other = context_->make_stream("other");
  launch(stream(), {1, 128}, add_slowly, data, 1000u, 1.0f);
  other->wait(context_->compute_stream().record());
  launch(cuda_stream(*other), {1, 128}, add, data, 1000u, 2.0f);
  const Event done = other->record();
  context_->compute_stream().wait(done);
  EXPECT_EQ(download(data, 1000), std::vector<float>(1000, 3.0f));
  EXPECT_TRUE(done.done());
}

TEST_F(CudaContextTest, TheHostWaitsForAnEvent) {
  float* const data = zeros<float>(1);
  launch(stream(), {1, 1}, add_slowly, data, 1u, 1.0f);
  const Event event = context_->compute_stream().record();
  EXPECT_TRUE(event.wait_until(Clock::now() + std::chrono::seconds(20)));
  EXPECT_TRUE(event.done());
  event.wait();
  EXPECT_TRUE(event.wait_until(Clock::now() - std::chrono::seconds(1)));
}

__global__ void wait_for_host(const std::uint32_t* word) {
  spin_until(
      word, [](std::uint32_t value) { return value != 0; }, SpinLimit{});
}

TEST_F(CudaContextTest, AWaitForAnEventEndsAtItsDeadline) {
  const Buffer buffer(context_->host_memory(), sizeof(std::uint32_t));
  auto* const word = static_cast<std::uint32_t*>(buffer.data());
  *word = 0;
  launch(stream(), {1, 1}, wait_for_host, word);
  const Event event = context_->compute_stream().record();
  EXPECT_FALSE(event.done());
  EXPECT_FALSE(event.wait_until(Clock::now() + std::chrono::milliseconds(20)));
  std::atomic_ref(*word).store(1, std::memory_order_release);
  EXPECT_TRUE(event.wait_until(Clock::now() + std::chrono::seconds(20)));
  context_->compute_stream().synchronize();
}

TEST_F(CudaContextTest, AnEventOutlivesItsStream) {
  Event event;
  {
    const std::unique_ptr<Stream> other = context_->make_stream("other");
    event = other->record();
  }
  EXPECT_TRUE(event.wait_until(Clock::now() + std::chrono::seconds(20)));
}

TEST_F(CudaContextTest, CopiesThroughPageLockedMemoryNeedNoWait) {
  constexpr std::size_t count = 100'000;
  const Buffer from(context_->host_memory(), count * sizeof(float));
  const Buffer to(context_->host_memory(), count * sizeof(float));
  auto* const values = static_cast<float*>(from.data());
  std::iota(values, values + count, 0.0f);
  float* const data = zeros<float>(count);
  Stream& compute = context_->compute_stream();
  context_->copy(data, from.data(), from.bytes(), compute);
  launch(stream(), {1, 256}, add, data, static_cast<unsigned>(count), 1.0f);
  context_->copy(to.data(), data, to.bytes(), compute);
  compute.synchronize();
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(static_cast<const float*>(to.data())[i], static_cast<float>(i) + 1.0f);
  }
}

TEST_F(CudaContextTest, ASteadyStepAllocatesNothing) {
  const auto step = [&] {
    const Buffer a(context_->allocator(), 5000);
    const Buffer b(context_->allocator(), 70'000);
    launch(stream(), {1, 32}, add, static_cast<float*>(a.data()), 0u, 1.0f);
    launch(stream(), {1, 32}, add, static_cast<float*>(b.data()), 0u, 1.0f);
  };
  step();
  const auto before = context_->allocator().statistics();
  for (int i = 0; i < 3; ++i) step();
  const auto after = context_->allocator().statistics();
  EXPECT_EQ(after.requests, before.requests + 6);
  EXPECT_EQ(after.source_requests, before.source_requests);
  context_->compute_stream().synchronize();
}

TEST_F(CudaContextTest, TooMuchMemoryIsBadAlloc) {
  const std::size_t all = describe_cuda_device(0).memory_bytes;
  EXPECT_THROW(Buffer(context_->allocator(), 2 * all), std::bad_alloc);
  EXPECT_NO_THROW(Buffer(context_->allocator(), 1000));
}

TEST_F(CudaContextTest, AFailedLaunchNamesPlaceDeviceAndRank) {
  EXPECT_THAT(
      [&] {
        launch(stream(), {1, 5000}, add, nullptr, 0u, 0.0f);
      },
      ThrowsMessage<CudaError>(AllOf(HasSubstr("1x1x1 blocks of 5000x1x1 threads"),
                                     HasSubstr("context_test.cu:"), HasSubstr("cuda:0, rank 0"),
                                     HasSubstr("cudaErrorInvalidConfiguration"))));
}

TEST_F(CudaContextTest, RanksAsThreadsShareADevice) {
  constexpr int ranks = 3;
  std::vector<float> results(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&results, rank] {
      const std::unique_ptr<Context> context = make_cuda_context(0, rank);
      const Buffer buffer(context->allocator(), sizeof(float));
      const float start = static_cast<float>(rank);
      context->upload(buffer.data(), &start, sizeof(float));
      launch(cuda_stream(context->compute_stream()), {1, 1}, add,
             static_cast<float*>(buffer.data()), 1u, 10.0f);
      context->download(&results[static_cast<std::size_t>(rank)], buffer.data(), sizeof(float));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results, (std::vector<float>{10.0f, 11.0f, 12.0f}));
}

TEST_F(CudaContextTest, RangesNest) {
  for (const char* const name : {"outer", "inner"}) context_->begin_range(name);
  for (int i = 0; i < 2; ++i) context_->end_range();
}

__global__ void copy_all(const float* from, float* to, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

TEST(CudaProcess, IsPreparedWhereTheUserHasNotChosen) {
  const auto value_of = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  const std::string connections = value_of("CUDA_DEVICE_MAX_CONNECTIONS");
  const std::string loading = value_of("CUDA_MODULE_LOADING");
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  prepare_cuda_process();
  EXPECT_EQ(value_of("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_EQ(value_of("CUDA_MODULE_LOADING"), "LAZY");
  unsetenv("CUDA_MODULE_LOADING");
  prepare_cuda_process();
  EXPECT_EQ(value_of("CUDA_MODULE_LOADING"), "EAGER");
  for (const auto& [name, value] : {std::pair{"CUDA_DEVICE_MAX_CONNECTIONS", connections},
                                    std::pair{"CUDA_MODULE_LOADING", loading}})
    value.empty() ? unsetenv(name) : setenv(name, value.c_str(), 1);
}

TEST(CudaPeers, ReadEachOthersMemory) {
  if (cuda_devices().count < 2) GTEST_SKIP() << "there is one device";
  if (!can_reach_peer(1, 0)) GTEST_SKIP() << "the devices cannot reach each other";
  const std::unique_ptr<Context> first = make_cuda_context(0, 0);
  const std::unique_ptr<Context> second = make_cuda_context(1, 1);
  enable_peer_access({1, 1}, 0);
  enable_peer_access({1, 1}, 0);
  enable_peer_access({1, 1}, 1);
  const std::vector<float> values{1, 2, 3, 4};
  const Buffer there(first->allocator(), values.size() * sizeof(float));
  const Buffer here(second->allocator(), values.size() * sizeof(float));
  first->upload(there.data(), values.data(), there.bytes());
  launch(cuda_stream(second->compute_stream()), {1, 32}, copy_all,
         static_cast<const float*>(there.data()), static_cast<float*>(here.data()), 4u);
  std::vector<float> result(values.size());
  second->download(result.data(), here.data(), here.bytes());
  EXPECT_EQ(result, values);
}

// Between processes in earnest; within one process the runtime of a real GPU refuses it.
TEST(CudaPeers, OpenExportedMemory) {
  const std::unique_ptr<Context> context = make_cuda_context(0, 0);
  const CudaPlace place{0, 0};
  CudaDeviceMemory memory(place);
  void* const block = memory.allocate(64);
  const MemoryHandle handle = export_memory(block, place);
  try {
    const ImportedMemory imported(handle, place);
    EXPECT_NE(imported.data(), nullptr);
  } catch (const CudaError&) {
    cudaGetLastError();
  }
  memory.deallocate(block, 64);
}

}  // namespace
}  // namespace lockstep::device

// Graphs: what is captured, what a launch does, whose the memory is, and what cannot be captured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_graph.h"
#include "framework/device/cuda/cuda_memory.h"
#include "framework/device/cuda/device.cuh"
#include "framework/device/cuda/occupancy.h"
#include "tests/framework/device/cuda/device_fixture.h"

namespace lockstep::device {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

__global__ void add(float* data, float value) {
  data[threadIdx.x] += value;
}
__global__ void add_from(float* data, const float* value) {
  data[threadIdx.x] += *value;
}
__global__ void add_slowly(float* data, float value) {
  __nanosleep(200'000);
  __syncthreads();
  data[threadIdx.x] += value;
}

constexpr unsigned threads = 64;
constexpr std::size_t bytes = threads * sizeof(float);

std::vector<float> filled(float value) {
  return std::vector<float>(threads, value);
}

class CudaGraphTest : public OnDevice {
 protected:
  CudaGraphTest() {
    load_kernel(stream(), add);
    load_kernel(stream(), add_from);
    load_kernel(stream(), add_slowly);
  }

  Stream& compute() { return context_->compute_stream(); }
  std::unique_ptr<Graph> capture(const std::function<void()>& body) {
    const std::array<Stream*, 1> streams{other_.get()};
    return context_->capture(streams, body);
  }
  void add_on(Stream& stream, float* data, float value) {
    launch(cuda_stream(stream), {1, threads}, add, data, value);
  }
  // `body` ends a capture with an error that says `why`; nothing of it has run, and what comes
  // after is as if it had not been.
  void expect_refused(const std::function<void()>& body, const std::string& why) {
    float* const data = zeros<float>(threads);
    const auto refused = [&] {
      capture([&] {
        add_on(compute(), data, 1);
        add_on(*other_, data, 1);
        body();
      });
    };
    EXPECT_THAT(refused, ThrowsMessage<CaptureError>(HasSubstr(why)));
    EXPECT_EQ(cuda_stream(compute()).capture(), nullptr);
    EXPECT_EQ(cuda_stream(*other_).capture(), nullptr);
    add_on(*other_, data, 2);
    compute().wait(other_->record());
    EXPECT_EQ(download(data, threads), filled(2));
    capture([&] { add_on(compute(), data, 3); })->launch();
    EXPECT_EQ(download(data, threads), filled(5));
  }

  std::unique_ptr<Stream> other_ = context_->make_stream("other");
};

TEST_F(CudaGraphTest, RunsWhenItIsLaunchedAndNotWhenItIsCaptured) {
  float* const data = zeros<float>(threads);
  const auto graph = capture([&] {
    add_on(compute(), data, 1);
    add_on(compute(), data, 2);
  });
  EXPECT_EQ(download(data, threads), filled(0));
  for (int i = 0; i < 3; ++i) graph->launch();
  add_on(compute(), data, 10);
  graph->launch().wait();
  EXPECT_EQ(download(data, threads), filled(22));
}

// The other stream's work begins behind the compute stream's and ends before what comes next there.
TEST_F(CudaGraphTest, HasTheOrderOfTheStreams) {
  float* const data = zeros<float>(threads);
  float* const sum = zeros<float>(threads);
  float* const rest = zeros<float>(threads);
  const auto body = [&] {
    launch(cuda_stream(compute()), {1, threads}, add_from, sum, rest);
    launch(cuda_stream(compute()), {1, threads}, add_slowly, data, 1.0f);
    other_->wait(compute().record());
    launch(cuda_stream(*other_), {1, threads}, add_slowly, data, 2.0f);
    compute().wait(other_->record());
    launch(cuda_stream(compute()), {1, threads}, add_from, sum, data);
    launch(cuda_stream(*other_), {1, threads}, add_slowly, rest, 4.0f);
  };
  const auto graph = capture(body);
  graph->launch();
  graph->launch();
  EXPECT_EQ(download(data, threads), filled(6));
  EXPECT_EQ(download(sum, threads), filled(3 + 6 + 4));
  EXPECT_EQ(download(rest, threads), filled(8));
}

TEST_F(CudaGraphTest, WhatChangesLiesInMemory) {
  float* const data = zeros<float>(threads);
  const Buffer value(context_->host_memory(), sizeof(float));
  float* const on_device = zeros<float>(1);
  const auto graph = capture([&] {
    context_->copy(on_device, value.data(), sizeof(float), compute());
    launch(stream(), {1, threads}, add_from, data, on_device);
  });
  for (int i = 1; i <= 4; ++i) {
    *static_cast<float*>(value.data()) = static_cast<float>(i);
    graph->launch().wait();
  }
  EXPECT_EQ(download(data, threads), filled(10));
}

TEST_F(CudaGraphTest, WhoWantsToKnowIsToldOfEachLaunch) {
  std::vector<int> told;
  const auto graph = capture([&] {
    CudaCapture* const running = cuda_stream(compute()).capture();
    ASSERT_NE(running, nullptr);
    EXPECT_EQ(cuda_stream(*other_).capture(), running);
    for (const int i : {1, 2}) running->on_launch([&told, i](const Event&) { told.push_back(i); });
  });
  EXPECT_TRUE(told.empty());
  graph->launch();
  graph->launch();
  EXPECT_EQ(told, (std::vector<int>{1, 2, 1, 2}));
}

TEST_F(CudaGraphTest, KeepsTheMemoryOfItsTensors) {
  CachingAllocator& allocator = context_->allocator();
  float* const result = zeros<float>(threads);
  const auto use = [&] {
    const Buffer scratch(allocator, bytes);
    auto* const values = static_cast<float*>(scratch.data());
    cudaMemsetAsync(values, 0, bytes, stream().native());
    add_on(compute(), values, 5);
    launch(stream(), {1, threads}, add_from, result, values);
    return values;
  };
  const float* const before = use();
  const float* captured = nullptr;
  auto graph = capture([&] {
    captured = use();
    EXPECT_EQ(use(), captured);  // within, memory is used again
  });
  EXPECT_EQ(captured, before);
  {
    const Buffer eager(allocator, bytes);
    EXPECT_NE(eager.data(), captured);
    auto* const values = static_cast<float*>(eager.data());
    cudaMemsetAsync(values, 0, bytes, stream().native());
    graph->launch();
    EXPECT_EQ(download(values, threads), filled(0));
  }
  EXPECT_EQ(download(result, threads), filled(15));
  graph.reset();
  const Buffer first(allocator, bytes), second(allocator, bytes);
  EXPECT_TRUE(first.data() == captured || second.data() == captured);
}

TEST_F(CudaGraphTest, AReplayAllocatesNothing) {
  const auto step = [&] {
    const Buffer a(context_->allocator(), 5000), b(context_->host_memory(), 700);
    add_on(compute(), static_cast<float*>(a.data()), 1);
  };
  step();
  const auto graph = capture(step);
  const auto before = context_->allocator().statistics();
  for (int i = 0; i < 3; ++i) graph->launch();
  EXPECT_EQ(context_->allocator().statistics().requests, before.requests);
}

TEST_F(CudaGraphTest, ABodyThatThrowsEndsTheCapture) {
  const auto stop = [&] { capture([] { throw DataError("no more data"); }); };
  EXPECT_THAT(stop, ThrowsMessage<DataError>(HasSubstr("no more data")));
  float* const data = zeros<float>(threads);
  capture([&] { add_on(compute(), data, 1); })->launch();
  EXPECT_EQ(download(data, threads), filled(1));
}

TEST_F(CudaGraphTest, HostWaitsAreRefused) {
  float* const data = zeros<float>(threads);
  std::vector<float> values(threads);
  expect_refused([&] { compute().synchronize(); }, "would wait for stream compute of cuda:0");
  expect_refused([&] { compute().record().wait(); }, "an event that is captured");
  expect_refused([&] { (void)other_->record().done(); }, "an event that is captured");
  expect_refused([&] { context_->download(values.data(), data, bytes); }, "");
  // CUDA's own words, where nothing of ours stands before it.
  expect_refused(
      [&] {
        check_cuda(cudaStreamSynchronize(stream().native()), "cudaStreamSynchronize",
                   stream().place());
      },
      "cudaErrorStreamCaptureUnsupported");
  // Who goes on nevertheless is told at the end.
  expect_refused([&] { cudaStreamSynchronize(stream().native()); },
                 "cudaErrorStreamCaptureInvalidated");
}

TEST_F(CudaGraphTest, MemoryThatTheCacheLacksIsRefused) {
  expect_refused([&] { const Buffer large(context_->allocator(), 3 << 20); },
                 "a block of 3145728 bytes");
  expect_refused([&] { CudaDeviceMemory(stream().place()).allocate(1000); },
                 "cudaErrorStreamCaptureUnsupported");
}

TEST_F(CudaGraphTest, OrderWithWorkOutsideIsRefused) {
  const Event before = compute().record();
  const auto third = context_->make_stream("third");
  expect_refused([&] { other_->wait(before); }, "outside of the capture");
  expect_refused([&] { third->wait(compute().record()); },
                 "stream third of cuda:0 would wait for work that is captured");
  Event inside;
  const auto graph = capture([&] { inside = compute().record(); });
  EXPECT_THROW(compute().wait(inside), CaptureError);
  EXPECT_THROW(inside.wait(), CaptureError);
  compute().synchronize();
}

TEST_F(CudaGraphTest, OtherThreadsGoOn) {
  std::unique_ptr<Graph> graph;
  float* const data = zeros<float>(threads);
  graph = capture([&] {
    add_on(compute(), data, 1);
    std::thread([] {
      const auto context = make_cuda_context(0, 1);
      const Buffer buffer(context->allocator(), 100'000);
      std::vector<float> values(25'000, 1.0f);
      context->upload(buffer.data(), values.data(), 100'000);
    }).join();
    add_on(compute(), data, 1);
  });
  graph->launch();
  EXPECT_EQ(download(data, threads), filled(2));
}

// What CUDA itself says of a fork that does not come back.
TEST_F(CudaGraphTest, AnUnjoinedStreamIsRefused) {
  float* const data = zeros<float>(threads);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  const cudaStream_t origin = stream().native(), fork = cuda_stream(*other_).native();
  ASSERT_EQ(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaEventRecord(event, origin);
  cudaStreamWaitEvent(fork, event, 0);
  add_on(*other_, data, 1);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(origin, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  cudaGetLastError();
  cudaEventDestroy(event);
  EXPECT_EQ(download(data, threads), filled(0));
}

}  // namespace
}  // namespace lockstep::device

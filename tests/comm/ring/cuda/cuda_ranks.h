// Ranks on GPUs as threads of this process: rank r on GPU r, or r modulo the number of GPUs.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/ring/cuda/cuda_ring_communicator.h"
#include "framework/device/buffer.h"
#include "framework/device/cuda/cuda_context.h"

namespace lockstep::comm::ring::cuda {

// Little memory and few threads: for the emulation, and so that several rounds of all loops are
// made with little data.
inline const Shape small_shape = {.channels = 2, .threads = 32, .slot_bytes = 512, .packs = 32};

struct RankOptions {
  Shape shape = small_shape;
  CommunicatorOptions options = {.timeout = std::chrono::seconds(20)};
  int devices = 64;  // the most to be used
};

class CudaRank {
 public:
  CudaRank(std::unique_ptr<Group> group, const RankOptions& how)
      : device_(group->rank() % std::min(device::cuda_devices().count, how.devices)),
        context_(device::make_cuda_context(device_, group->rank())),
        stream_(context_->make_stream("communication")),
        communicator_(std::make_unique<CudaRingCommunicator>(std::move(group), device_, how.options,
                                                             how.shape)) {}

  int index() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  CudaRingCommunicator& communicator() { return *communicator_; }
  Stream& stream() { return *stream_; }
  Context& context() { return *context_; }

 private:
  int device_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<CudaRingCommunicator> communicator_;
};

// Elements on the GPU, with `offset` elements before them.
template <class T>
class OnGpu {
 public:
  OnGpu(Context& context, const std::vector<T>& values, std::size_t offset = 0)
      : context_(context),
        buffer_(context.allocator(), (values.size() + offset + 1) * sizeof(T)),
        data_(static_cast<T*>(buffer_.data()) + offset),
        count_(values.size()) {
    context_.upload(data_, values.data(), count_ * sizeof(T));
    context_.compute_stream().synchronize();
  }
  Range range() const { return {data_, static_cast<std::int64_t>(count_), base::dtype_of<T>()}; }
  std::vector<T> values() const {
    std::vector<T> result(count_);
    context_.download(result.data(), data_, count_ * sizeof(T));
    return result;
  }

 private:
  Context& context_;
  Buffer buffer_;
  T* data_;
  std::size_t count_;
};

// Runs `body` on every rank and fails the test for what a rank throws.
inline void run_cuda_ranks(int size, const std::function<void(CudaRank&)>& body,
                           const RankOptions& how = {}) {
  auto groups = make_thread_groups(size);
  std::vector<std::thread> threads;
  for (auto& group : groups)
    threads.emplace_back([&] {
      Group* const plain = group.get();
      const int index = plain->rank();
      try {
        CudaRank rank(std::move(group), how);
        try {
          body(rank);
        } catch (const std::exception& error) {
          rank.communicator().abort(index, error.what());
          throw;
        }
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << index << ": " << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lockstep::comm::ring::cuda

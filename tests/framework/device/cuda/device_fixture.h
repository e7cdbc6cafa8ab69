// A rank's world on the first GPU, for tests of CUDA code.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "framework/device/buffer.h"
#include "framework/device/cuda/cuda_context.h"
#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::device {

class OnDevice : public testing::Test {
 protected:
  template <class T>
  T* upload(const std::vector<T>& values) {
    buffers_.emplace_back(context_->allocator(), values.size() * sizeof(T));
    context_->upload(buffers_.back().data(), values.data(), values.size() * sizeof(T));
    return static_cast<T*>(buffers_.back().data());
  }
  template <class T>
  T* zeros(std::size_t count) {
    return upload(std::vector<T>(count));
  }
  template <class T>
  std::vector<T> download(const T* values, std::size_t count) {
    std::vector<T> result(count);
    context_->download(result.data(), values, count * sizeof(T));
    return result;
  }
  const CudaStream& stream() { return cuda_stream(context_->compute_stream()); }

  std::unique_ptr<Context> context_ = make_cuda_context(0, 0);
  std::vector<Buffer> buffers_;
};

}  // namespace lockstep::device

#pragma once

#include <cstdint>

#include "framework/base/random.h"
#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::kernels::cuda {

// y (+)= x * mask * scale for contiguous [rows, width]; an element stays where the 24 upper bits of
// its draw are at least `threshold`. Row i draws as row first_row + i.
template <class T>
struct Dropout {
  std::uint64_t purpose = 0;            // of the stream, as RandomStream::key_of takes it
  const std::uint64_t* step = nullptr;  // on the device
  std::uint32_t threshold = 0;
  T scale = 1;
  std::int64_t first_row = 0;
  std::int64_t rows = 0, width = 0;
  bool accumulate = false;
};

template <class T>
void launch_dropout(const device::CudaStream& stream, const Dropout<T>& dropout, const T* x, T* y);

}  // namespace lockstep::kernels::cuda

// For the loading of kernels.
#pragma once

#include <algorithm>
#include <limits>

#include "framework/base/dtype.h"
#include "framework/device/cuda/occupancy.h"

namespace lockstep::comm::ring::cuda {

// Loads the kernel; how many of its blocks the device holds.
template <class... Parameters>
int load_blocks(const device::CudaStream& stream, void (*kernel)(Parameters...), unsigned threads) {
  device::load_kernel(stream, kernel);
  return device::coresident_blocks(stream, kernel, static_cast<int>(threads));
}

// The same for a kernel of each element type, `get(TypeTag<T>{})`: of the largest.
template <class Get>
int load_for_each_dtype(const device::CudaStream& stream, unsigned threads, Get&& get) {
  int blocks = std::numeric_limits<int>::max();
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                            DType::int32, DType::int64, DType::uint8}) {
    base::visit_dtype(dtype, [&](auto tag) {
      blocks = std::min(blocks, load_blocks(stream, get(tag), threads));
    });
  }
  return blocks;
}

}  // namespace lockstep::comm::ring::cuda

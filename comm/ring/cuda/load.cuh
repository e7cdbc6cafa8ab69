// For the loading of kernels.
#pragma once

#include <algorithm>
#include <limits>

#include "framework/base/dtype.h"
#include "framework/device/cuda/occupancy.h"

namespace lockstep::comm::ring::cuda {

// A kernel of each element type, which is `get(TypeTag<T>{})`: loads them. Returns how many blocks
// of the largest the device holds.
template <class Get>
int load_for_each_dtype(const device::CudaStream& stream, unsigned threads, Get&& get) {
  int blocks = std::numeric_limits<int>::max();
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                            DType::int32, DType::int64, DType::uint8}) {
    base::visit_dtype(dtype, [&](auto tag) {
      device::load_kernel(stream, get(tag));
      blocks =
          std::min(blocks, device::coresident_blocks(stream, get(tag), static_cast<int>(threads)));
    });
  }
  return blocks;
}

}  // namespace lockstep::comm::ring::cuda

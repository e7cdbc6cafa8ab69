#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::kernels::cuda {

// out = x * factor + offset for contiguous [rows, channels, width]. Stored: uint8_t, float.
template <class Stored, class T>
struct Normalization {
  const Stored* x = nullptr;
  const T* factor = nullptr;  // [channels]
  const T* offset = nullptr;
  T* out = nullptr;
  std::int64_t count = 0, channels = 1, width = 1;
};

template <class Stored, class T>
void launch_normalize_channels(const device::CudaStream& stream,
                               const Normalization<Stored, T>& job);

}  // namespace lockstep::kernels::cuda

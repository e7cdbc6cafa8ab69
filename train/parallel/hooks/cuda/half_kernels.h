// Launchers of the 16-bit hooks. T is float or double, Half bfloat16 or float16.
#pragma once

#include <cstdint>

#include "framework/base/dtype.h"
#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::train {

// The power of two that half_scale.h finds for a largest magnitude in device memory; 1 without one.
struct HalfScale {
  const float* peak = nullptr;
  int ranks = 1;
};

// The largest magnitude of the values as floats, NaN where one is.
template <class T>
void launch_find_peak(const device::CudaStream& stream, const T* values, std::int64_t count,
                      float* peak);
// to[i] = values[i] as a float, times the scale.
template <class T, class Half>
void launch_encode(const device::CudaStream& stream, const T* values, std::int64_t count,
                   const HalfScale& scale, Half* to);
// And back: values[i] = from[i] as a float, divided by the scale.
template <class Half, class T>
void launch_decode(const device::CudaStream& stream, const Half* from, std::int64_t count,
                   const HalfScale& scale, T* values);

}  // namespace lockstep::train

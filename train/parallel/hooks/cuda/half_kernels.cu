#include "train/parallel/hooks/cuda/half_kernels.h"

#include "framework/kernels/cuda/map.cuh"
#include "framework/kernels/cuda/parts.cuh"
#include "train/parallel/hooks/half_scale.h"
#include "train/parallel/hooks/selection.h"

namespace lockstep::train {
namespace {

// The bits of magnitudes are in the order of the magnitudes.
template <class T>
__global__ void find_peak(std::int64_t count, bool aligned, const T* values, unsigned* peak) {
  kernels::cuda::for_parts(
      count, values, [&](const auto& team, std::int64_t, std::int64_t length, const T* part) {
        unsigned largest = 0;
        team.visit(
            length, aligned,
            [&](std::int64_t, T value) {
              const unsigned bits = magnitude_bits(value);
              largest = bits > largest ? bits : largest;
            },
            part);
        largest = team.reduce(largest, [](unsigned a, unsigned b) { return a > b ? a : b; });
        if (team.lane() == 0) atomicMax(peak, largest);
      });
}

template <class T, class Half>
struct Encode {
  HalfScale scale;
  __device__ Half operator()(T value) const {
    const int exponent = scale.peak ? scale_exponent(*scale.peak, scale.ranks) : 0;
    return Half(static_cast<float>(value) * power_of_two(exponent));
  }
};

template <class Half, class T>
struct Decode {
  HalfScale scale;
  __device__ T operator()(Half value) const {
    const int exponent = scale.peak ? scale_exponent(*scale.peak, scale.ranks) : 0;
    return static_cast<T>(static_cast<float>(value) * power_of_two(-exponent));
  }
};

kernels::cuda::MapLoop flat(std::int64_t count) {
  return {.count = count, .flat = true, .space = {}};
}

}  // namespace

template <class T>
void launch_find_peak(const device::CudaStream& stream, const T* values, std::int64_t count,
                      float* peak) {
  stream.activate();
  device::check_cuda(cudaMemsetAsync(peak, 0, sizeof(float), stream.native()), "cudaMemsetAsync",
                     stream.place());
  device::launch(stream, {kernels::cuda::blocks_for_parts(count), device::block_threads},
                 find_peak<T>, count, kernels::cuda::is_aligned(values), values,
                 reinterpret_cast<unsigned*>(peak));
}

template <class T, class Half>
void launch_encode(const device::CudaStream& stream, const T* values, std::int64_t count,
                   const HalfScale& scale, Half* to) {
  kernels::cuda::map(stream, flat(count), Encode<T, Half>{scale}, to, values);
}

template <class Half, class T>
void launch_decode(const device::CudaStream& stream, const Half* from, std::int64_t count,
                   const HalfScale& scale, T* values) {
  kernels::cuda::map(stream, flat(count), Decode<Half, T>{scale}, values, from);
}

#define INSTANTIATE_FOR(T, Half)                                                                   \
  template void launch_encode(const device::CudaStream&, const T*, std::int64_t, const HalfScale&, \
                              Half*);                                                              \
  template void launch_decode(const device::CudaStream&, const Half*, std::int64_t,                \
                              const HalfScale&, T*)
INSTANTIATE_FOR(float, bfloat16);
INSTANTIATE_FOR(float, float16);
INSTANTIATE_FOR(double, bfloat16);
INSTANTIATE_FOR(double, float16);
#undef INSTANTIATE_FOR
template void launch_find_peak(const device::CudaStream&, const float*, std::int64_t, float*);
template void launch_find_peak(const device::CudaStream&, const double*, std::int64_t, float*);

}  // namespace lockstep::train

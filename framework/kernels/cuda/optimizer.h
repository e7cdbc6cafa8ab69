// Launchers of optimizer steps: one pass over flat ranges of equal length.
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/update_constants.h"

namespace lockstep::kernels::cuda {

// The gradient as a step takes it: clamp(scale * grad, -limit, limit). *nonfinite, unless nullptr,
// is set to 1 where an element of grad is not finite.
template <class T>
struct Gradient {
  const T* grad = nullptr;
  T scale = 1, limit = 0;
  std::int32_t* nonfinite = nullptr;
};

// `momentum` is nullptr where there is none.
template <class T>
void launch_sgd(const device::CudaStream& stream, std::int64_t count,
                const SgdConstants<T>& constants, bool nesterov, T* parameter,
                const Gradient<T>& gradient, T* momentum);
template <class T>
void launch_adam(const device::CudaStream& stream, std::int64_t count,
                 const AdamConstants<T>& constants, T* parameter, const Gradient<T>& gradient,
                 T* first_moment, T* second_moment);

}  // namespace lockstep::kernels::cuda

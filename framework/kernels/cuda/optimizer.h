// Launchers of optimizer steps: one pass over flat ranges of equal length.
#pragma once

#include <cstdint>

#include "framework/base/dtype.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/update_constants.h"

namespace lockstep::kernels::cuda {

// The gradient as a step takes it: clamp(*factor * grad, -limit, limit). Where *skip is not
// 0 the step does nothing. *nonfinite is set to 1 where an element of grad is not finite. Each of
// the pointers on this side of `grad` may be nullptr.
template <class T>
struct Gradient {
  const T* grad = nullptr;
  const double* factor = nullptr;
  T limit = 0;
  const std::int32_t* skip = nullptr;
  std::int32_t* nonfinite = nullptr;
};

// What a step changes; `working` gets the parameters of float32, rounded, unless it is nullptr.
template <class T>
struct Parameter {
  T* value = nullptr;
  bfloat16* working = nullptr;
};

// `constants` are on the device. `momentum` is nullptr where there is none.
template <class T>
void launch_sgd(const device::CudaStream& stream, std::int64_t count,
                const SgdConstants<T>* constants, bool nesterov, const Parameter<T>& parameter,
                const Gradient<T>& gradient, T* momentum);
template <class T>
void launch_adam(const device::CudaStream& stream, std::int64_t count,
                 const AdamConstants<T>* constants, const Parameter<T>& parameter,
                 const Gradient<T>& gradient, T* first_moment, T* second_moment);

}  // namespace lockstep::kernels::cuda

#include "framework/kernels/noted_error.h"

#include <array>

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/device_state.h"

namespace lockstep::kernels::cuda {

Tensor CudaKernels::noted_error(Context& context) const {
  return DeviceState::of(context).noted_words();
}

void CudaKernels::throw_noted_error(Context& context) const {
  DeviceState& state = DeviceState::of(context);
  std::array<std::int64_t, NotedError::words> words;
  state.noted_words().to_host(std::as_writable_bytes(std::span(words)));
  if (words[0] != NotedError::none) state.forget_noted();
  throw_noted(words);
}

}  // namespace lockstep::kernels::cuda

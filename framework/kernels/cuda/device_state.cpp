#include "framework/kernels/cuda/device_state.h"

#include "framework/kernels/cuda/embedding.h"

#include "framework/kernels/kernels.h"

namespace lockstep::kernels::cuda {
namespace {

template <class T>
void store(const T& value, const Tensor& to) {
  cuda_kernels().store(std::as_bytes(std::span(&value, 1)), to);
}

}  // namespace

DeviceState::DeviceState(Context& context)
    : noted_(Tensor::empty(context, {NotedError::words}, DType::int64)),
      bad_position_(Tensor::empty(context, {1}, DType::int64)),
      random_step_(Tensor::empty(context, {1}, DType::int64)) {
  forget_noted();
  store(no_position, bad_position_);
  store(step_on_device_, random_step_);
}

void DeviceState::forget_noted() {
  store(NotedError{}, noted_);
}

void DeviceState::set_random_step(std::uint64_t step) {
  if (step == step_on_device_) return;
  store(step, random_step_);
  step_on_device_ = step;
}

}  // namespace lockstep::kernels::cuda

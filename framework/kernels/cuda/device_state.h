// What the kernels of a context keep on its device from call to call.
#pragma once

#include <cstdint>

#include "framework/kernels/noted_error.h"
#include "framework/tensor/tensor.h"

namespace lockstep::kernels::cuda {

class DeviceState {
 public:
  static DeviceState& of(Context& context) { return context.attachment<DeviceState>(); }
  explicit DeviceState(Context& context);

  const Tensor& noted_words() const { return noted_; }
  NotedError* noted() const { return reinterpret_cast<NotedError*>(noted_.data<std::int64_t>()); }
  void forget_noted();

  // The least position whose index is no row, for the kernel that looks for one now; no_position
  // (embedding.h) before and after it.
  unsigned long long* first_bad_position() const {
    return reinterpret_cast<unsigned long long*>(bad_position_.data<std::int64_t>());
  }

  // The step of random draws, where kernels read it.
  const std::uint64_t* random_step() const {
    return reinterpret_cast<const std::uint64_t*>(random_step_.data<std::int64_t>());
  }
  // Kernels launched from now on find this step there; enqueues nothing where they do already.
  void set_random_step(std::uint64_t step);

 private:
  Tensor noted_, bad_position_, random_step_;
  std::uint64_t step_on_device_ = 0;
};

}  // namespace lockstep::kernels::cuda

// What an optimizer step is made of: computed on the host in the dtype of the parameter, and read
// by the step from memory of the device. The formulas are those of PyTorch's torch.optim.SGD, Adam
// and AdamW.
#pragma once

#include <cmath>
#include <cstdint>

#include "framework/kernels/operations.h"

namespace lockstep::kernels {

template <class T>
struct SgdConstants {
  static constexpr std::int64_t count = 3;
  SgdConstants() = default;
  explicit SgdConstants(const SgdOptions& options)
      : decay(static_cast<T>(options.weight_decay)),
        lr(static_cast<T>(options.lr)),
        momentum(static_cast<T>(options.momentum)) {}
  T decay, lr, momentum;
};

template <class T>
struct AdamConstants {
  static constexpr std::int64_t count = 8;
  AdamConstants() = default;
  explicit AdamConstants(const AdamOptions& options) {
    const auto step = static_cast<double>(options.step);
    const double correction1 = 1 - std::pow(options.beta1, step);
    const double correction2 = 1 - std::pow(options.beta2, step);
    decay = static_cast<T>(options.decoupled ? 0 : options.weight_decay);
    keep = static_cast<T>(options.decoupled ? 1 - options.lr * options.weight_decay : 1);
    blend1 = static_cast<T>(1 - options.beta1);
    beta2 = static_cast<T>(options.beta2);
    blend2 = static_cast<T>(1 - options.beta2);
    inverse_sqrt_correction2 = static_cast<T>(1 / std::sqrt(correction2));
    epsilon = static_cast<T>(options.epsilon);
    step_size = static_cast<T>(options.lr / correction1);
  }
  T decay, keep, blend1, beta2, blend2, inverse_sqrt_correction2, epsilon, step_size;
};

}  // namespace lockstep::kernels

// One pass over the range, each element read and written once. The formulas are those of PyTorch's
// torch.optim.SGD, Adam and AdamW, computed in the dtype of the parameter.
#include <cmath>
#include <string_view>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/dispatch.h"
#include "framework/kernels/cpu/parallel.h"

namespace lockstep::kernels {
namespace {

void require_range(std::string_view kernel, std::string_view operand, const Tensor& tensor,
                   const Tensor& parameter) {
  require_contiguous(kernel, operand, tensor);
  require_shape(kernel, operand, tensor, parameter.shape());
}

template <class T>
struct SgdConstants {
  SgdConstants(double grad_scale, const SgdOptions& options)
      : scale(static_cast<T>(grad_scale)),
        decay(static_cast<T>(options.weight_decay)),
        lr(static_cast<T>(options.lr)),
        momentum(static_cast<T>(options.momentum)),
        blend(static_cast<T>(1 - options.dampening)) {}
  T scale, decay, lr, momentum, blend;
};

enum class Momentum { none, first_step, heavy_ball };

template <Momentum mode, bool nesterov, class T>
void sgd_block(std::int64_t n, const SgdConstants<T>& constants, T* __restrict parameter,
               const T* __restrict grad, T* __restrict buffer) {
  const auto [scale, decay, lr, momentum, blend] = constants;
  for (std::int64_t i = 0; i < n; ++i) {
    const T p = parameter[i];
    T step = scale * grad[i] + decay * p;
    if constexpr (mode != Momentum::none) {
      const T velocity = mode == Momentum::first_step ? step : momentum * buffer[i] + blend * step;
      buffer[i] = velocity;
      step = nesterov ? step + momentum * velocity : velocity;
    }
    parameter[i] = p - lr * step;
  }
}

template <class T>
auto choose_sgd_block(bool has_momentum, const SgdOptions& options) {
  if (!has_momentum) return &sgd_block<Momentum::none, false, T>;
  if (options.first_step) {
    return options.nesterov ? &sgd_block<Momentum::first_step, true, T>
                            : &sgd_block<Momentum::first_step, false, T>;
  }
  return options.nesterov ? &sgd_block<Momentum::heavy_ball, true, T>
                          : &sgd_block<Momentum::heavy_ball, false, T>;
}

template <class T>
struct AdamConstants {
  AdamConstants(double grad_scale, const AdamOptions& options) {
    const auto step = static_cast<double>(options.step);
    const double correction1 = 1 - std::pow(options.beta1, step);
    const double correction2 = 1 - std::pow(options.beta2, step);
    scale = static_cast<T>(grad_scale);
    decay = static_cast<T>(options.decoupled ? 0 : options.weight_decay);
    keep = static_cast<T>(options.decoupled ? 1 - options.lr * options.weight_decay : 1);
    blend1 = static_cast<T>(1 - options.beta1);
    beta2 = static_cast<T>(options.beta2);
    blend2 = static_cast<T>(1 - options.beta2);
    inverse_sqrt_correction2 = static_cast<T>(1 / std::sqrt(correction2));
    epsilon = static_cast<T>(options.epsilon);
    step_size = static_cast<T>(options.lr / correction1);
  }
  T scale, decay, keep, blend1, beta2, blend2, inverse_sqrt_correction2, epsilon, step_size;
};

template <class T>
void adam_block(std::int64_t n, const AdamConstants<T>& constants, T* __restrict parameter,
                const T* __restrict grad, T* __restrict first_moment, T* __restrict second_moment) {
  const AdamConstants<T> c = constants;
  for (std::int64_t i = 0; i < n; ++i) {
    const T p = parameter[i];
    const T g = c.scale * grad[i] + c.decay * p;
    const T m = first_moment[i] + c.blend1 * (g - first_moment[i]);
    const T v = c.beta2 * second_moment[i] + c.blend2 * (g * g);
    first_moment[i] = m;
    second_moment[i] = v;
    parameter[i] =
        c.keep * p - c.step_size * (m / (std::sqrt(v) * c.inverse_sqrt_correction2 + c.epsilon));
  }
}

}  // namespace

void CpuKernels::sgd_step(const Tensor& parameter, const Tensor& grad, const Tensor& momentum,
                          double grad_scale, const SgdOptions& options) const {
  require_contiguous("sgd_step", "parameter", parameter);
  require_range("sgd_step", "grad", grad, parameter);
  if (momentum.defined()) require_range("sgd_step", "momentum", momentum, parameter);
  visit_float("sgd_step", parameter.dtype(), [&]<class T>(base::TypeTag<T>) {
    const SgdConstants<T> constants(grad_scale, options);
    const auto block = choose_sgd_block<T>(momentum.defined(), options);
    T* const p = parameter.data<T>();
    const T* const g = grad.data<T>();
    T* const buffer = momentum.defined() ? momentum.data<T>() : nullptr;
    for_blocks(parameter.context(), parameter.count(), elements_per_block,
               [&](std::int64_t begin, std::int64_t end) {
                 block(end - begin, constants, p + begin, g + begin,
                       buffer ? buffer + begin : nullptr);
               });
  });
}

void CpuKernels::adam_step(const Tensor& parameter, const Tensor& grad, const Tensor& first_moment,
                           const Tensor& second_moment, double grad_scale,
                           const AdamOptions& options) const {
  require_contiguous("adam_step", "parameter", parameter);
  require_range("adam_step", "grad", grad, parameter);
  require_range("adam_step", "first_moment", first_moment, parameter);
  require_range("adam_step", "second_moment", second_moment, parameter);
  visit_float("adam_step", parameter.dtype(), [&]<class T>(base::TypeTag<T>) {
    const AdamConstants<T> constants(grad_scale, options);
    T* const p = parameter.data<T>();
    const T* const g = grad.data<T>();
    T* const m = first_moment.data<T>();
    T* const v = second_moment.data<T>();
    for_blocks(parameter.context(), parameter.count(), elements_per_block,
               [&](std::int64_t begin, std::int64_t end) {
                 adam_block(end - begin, constants, p + begin, g + begin, m + begin, v + begin);
               });
  });
}

}  // namespace lockstep::kernels

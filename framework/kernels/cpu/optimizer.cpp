// One pass over the range, each element read and written once.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/update_operands.h"

namespace lockstep::kernels {
namespace {

// The gradient of a block as a step takes it.
template <class T>
class BlockGradient {
 public:
  BlockGradient(const T* grad, double scale, double limit)
      : grad_(grad), scale_(static_cast<T>(scale)), limit_(static_cast<T>(limit)) {}

  T operator[](std::int64_t i) const {
    const T scaled = scale_ * grad_[i];
    const T below = scaled > limit_ ? limit_ : scaled;
    return below < -limit_ ? -limit_ : below;
  }
  // v - v is 0 for finite values and NaN for the others.
  int is_bad(std::int64_t i) const { return grad_[i] - grad_[i] != T(0); }

 private:
  const T* __restrict grad_;
  T scale_, limit_;
};

// Returns whether an element of the gradient was not finite.
template <bool has_momentum, bool nesterov, class T>
bool sgd_block(std::int64_t n, const SgdConstants<T>& constants, T* __restrict parameter,
               const BlockGradient<T> grad, T* __restrict buffer) {
  const auto [decay, lr, momentum] = constants;
  int bad = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const T p = parameter[i];
    T step = grad[i] + decay * p;
    const int is_bad = grad.is_bad(i);
    bad |= is_bad;
    if constexpr (has_momentum) {
      const T velocity = momentum * buffer[i] + step;
      buffer[i] = velocity;
      step = nesterov ? step + momentum * velocity : velocity;
    }
    parameter[i] = is_bad ? p : p - lr * step;
  }
  return bad != 0;
}

template <class T>
auto choose_sgd_block(bool has_momentum, bool nesterov) {
  if (!has_momentum) return &sgd_block<false, false, T>;
  return nesterov ? &sgd_block<true, true, T> : &sgd_block<true, false, T>;
}

template <class T>
bool adam_block(std::int64_t n, const AdamConstants<T>& constants, T* __restrict parameter,
                const BlockGradient<T> grad, T* __restrict first_moment,
                T* __restrict second_moment) {
  const AdamConstants<T> c = constants;
  int bad = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const T p = parameter[i];
    const T g = grad[i] + c.decay * p;
    const int is_bad = grad.is_bad(i);
    bad |= is_bad;
    const T m = first_moment[i] + c.blend1 * (g - first_moment[i]);
    const T v = c.beta2 * second_moment[i] + c.blend2 * (g * g);
    first_moment[i] = m;
    second_moment[i] = v;
    const T updated =
        c.keep * p - c.step_size * (m / (std::sqrt(v) * c.inverse_sqrt_correction2 + c.epsilon));
    parameter[i] = is_bad ? p : updated;
  }
  return bad != 0;
}

template <class Constants>
Constants constants_in(const Tensor& tensor) {
  Constants constants;
  std::memcpy(&constants, tensor.data(), sizeof constants);
  return constants;
}

// Calls step(begin, end, gradient) for the blocks of a range; notes where one returned true.
template <class T, class Step>
void update_blocks(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                   const GradientUse& use, Step&& step) {
  if (use.skip.defined() && *use.skip.data<std::int32_t>() != 0) return;
  const double scale = use.factor.defined() ? *use.factor.data<double>() : 1;
  const T* const g = grad.data<T>();
  const T* const p = parameter.data<T>();
  bfloat16* const rounded = working.defined() ? working.data<bfloat16>() : nullptr;
  std::atomic<bool> bad{false};
  for_blocks(parameter.context(), parameter.count(), elements_per_block,
             [&](std::int64_t begin, std::int64_t end) {
               if (step(begin, end, BlockGradient<T>(g + begin, scale, use.limit)))
                 bad.store(true, std::memory_order_relaxed);
               if (rounded != nullptr)
                 std::transform(p + begin, p + end, rounded + begin,
                                [](T value) { return bfloat16(static_cast<float>(value)); });
             });
  if (bad && use.nonfinite.defined()) use.nonfinite.elements<std::int32_t>()[0] = 1;
}

}  // namespace

void CpuKernels::sgd_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                          const Tensor& momentum, bool nesterov, const Tensor& constants,
                          const GradientUse& use) const {
  require_sgd_step(parameter, working, grad, momentum, constants, use);
  visit_float("sgd_step", parameter.dtype(), [&]<class T>(base::TypeTag<T>) {
    const auto step_constants = constants_in<SgdConstants<T>>(constants);
    const auto block = choose_sgd_block<T>(momentum.defined(), nesterov);
    T* const p = parameter.data<T>();
    T* const buffer = momentum.defined() ? momentum.data<T>() : nullptr;
    update_blocks<T>(parameter, working, grad, use,
                     [&](std::int64_t begin, std::int64_t end, const BlockGradient<T>& gradient) {
                       return block(end - begin, step_constants, p + begin, gradient,
                                    buffer ? buffer + begin : nullptr);
                     });
  });
}

void CpuKernels::adam_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                           const Tensor& first_moment, const Tensor& second_moment,
                           const Tensor& constants, const GradientUse& use) const {
  require_adam_step(parameter, working, grad, first_moment, second_moment, constants, use);
  visit_float("adam_step", parameter.dtype(), [&]<class T>(base::TypeTag<T>) {
    const auto step_constants = constants_in<AdamConstants<T>>(constants);
    T* const p = parameter.data<T>();
    T* const m = first_moment.data<T>();
    T* const v = second_moment.data<T>();
    update_blocks<T>(parameter, working, grad, use,
                     [&](std::int64_t begin, std::int64_t end, const BlockGradient<T>& gradient) {
                       return adam_block(end - begin, step_constants, p + begin, gradient,
                                         m + begin, v + begin);
                     });
  });
}

}  // namespace lockstep::kernels

#include "framework/kernels/cuda/optimizer.h"

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/update_operands.h"

namespace lockstep::kernels::cuda {
namespace {

template <class T>
Gradient<T> gradient_of(const Tensor& grad, const GradientUse& use) {
  return {grad.data<T>(), use.factor.defined() ? use.factor.data<double>() : nullptr,
          static_cast<T>(use.limit), use.skip.defined() ? use.skip.data<std::int32_t>() : nullptr,
          use.nonfinite.defined() ? use.nonfinite.data<std::int32_t>() : nullptr};
}

template <class T>
Parameter<T> parameter_of(const Tensor& value, const Tensor& working) {
  return {value.data<T>(), working.defined() ? working.data<bfloat16>() : nullptr};
}

template <class T, template <class> class Constants>
const Constants<T>* constants_in(const Tensor& tensor) {
  return reinterpret_cast<const Constants<T>*>(tensor.data<T>());
}

}  // namespace

void CudaKernels::sgd_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                           const Tensor& momentum, bool nesterov, const Tensor& constants,
                           const GradientUse& use) const {
  require_sgd_step(parameter, working, grad, momentum, constants, use);
  visit_float("sgd_step", parameter.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_sgd<T>(stream_of(parameter), parameter.count(), constants_in<T, SgdConstants>(constants),
                  nesterov, parameter_of<T>(parameter, working), gradient_of<T>(grad, use),
                  momentum.defined() ? momentum.data<T>() : nullptr);
  });
}

void CudaKernels::adam_step(const Tensor& parameter, const Tensor& working, const Tensor& grad,
                            const Tensor& first_moment, const Tensor& second_moment,
                            const Tensor& constants, const GradientUse& use) const {
  require_adam_step(parameter, working, grad, first_moment, second_moment, constants, use);
  visit_float("adam_step", parameter.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_adam<T>(stream_of(parameter), parameter.count(),
                   constants_in<T, AdamConstants>(constants), parameter_of<T>(parameter, working),
                   gradient_of<T>(grad, use), first_moment.data<T>(), second_moment.data<T>());
  });
}

}  // namespace lockstep::kernels::cuda

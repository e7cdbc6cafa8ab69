#include "framework/kernels/cuda/optimizer.h"

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/dispatch.h"

namespace lockstep::kernels::cuda {
namespace {

template <class T>
Gradient<T> gradient_of(std::string_view kernel, const Tensor& grad, const GradientUse& use) {
  if (use.nonfinite.defined()) require_shape(kernel, "nonfinite", use.nonfinite, {1});
  return {grad.data<T>(), static_cast<T>(use.scale), static_cast<T>(use.limit),
          use.nonfinite.defined() ? use.nonfinite.data<std::int32_t>() : nullptr};
}

}  // namespace

void CudaKernels::sgd_step(const Tensor& parameter, const Tensor& grad, const Tensor& momentum,
                           const GradientUse& use, const SgdOptions& options) const {
  require_contiguous("sgd_step", "parameter", parameter);
  require_range("sgd_step", "grad", grad, parameter);
  if (momentum.defined()) require_range("sgd_step", "momentum", momentum, parameter);
  visit_float("sgd_step", parameter.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_sgd<T>(stream_of(parameter), parameter.count(), SgdConstants<T>(options),
                  options.nesterov, parameter.data<T>(), gradient_of<T>("sgd_step", grad, use),
                  momentum.defined() ? momentum.data<T>() : nullptr);
  });
}

void CudaKernels::adam_step(const Tensor& parameter, const Tensor& grad, const Tensor& first_moment,
                            const Tensor& second_moment, const GradientUse& use,
                            const AdamOptions& options) const {
  require_contiguous("adam_step", "parameter", parameter);
  require_range("adam_step", "grad", grad, parameter);
  require_range("adam_step", "first_moment", first_moment, parameter);
  require_range("adam_step", "second_moment", second_moment, parameter);
  visit_float("adam_step", parameter.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_adam<T>(stream_of(parameter), parameter.count(), AdamConstants<T>(options),
                   parameter.data<T>(), gradient_of<T>("adam_step", grad, use),
                   first_moment.data<T>(), second_moment.data<T>());
  });
}

}  // namespace lockstep::kernels::cuda

#include "framework/kernels/cuda/batch_norm.h"

#include "framework/kernels/batch_norm_shape.h"
#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"

namespace lockstep::kernels::cuda {

void CudaKernels::batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             double epsilon, double momentum, const Tensor& running_mean,
                             const Tensor& running_variance, const Tensor& mean,
                             const Tensor& inverse_deviation, const Tensor& y) const {
  const BatchNormShape shape = batch_norm_training_shape(
      x, weight, bias, running_mean, running_variance, mean, inverse_deviation, y);
  if (shape.features == 0) return;
  visit_float("batch_norm", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_batch_statistics<T>(stream_of(x), shape, x.data<T>(), epsilon, momentum,
                               running_mean.data<T>(), running_variance.data<T>(), mean.data<T>(),
                               inverse_deviation.data<T>());
    launch_batch_normalize<T>(stream_of(x), shape, x.data<T>(), weight.data<T>(), bias.data<T>(),
                              mean.data<T>(), inverse_deviation.data<T>(), y.data<T>());
  });
}

void CudaKernels::batch_norm_inference(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                       double epsilon, const Tensor& mean, const Tensor& variance,
                                       const Tensor& inverse_deviation, const Tensor& y) const {
  const BatchNormShape shape =
      batch_norm_inference_shape(x, weight, bias, mean, variance, inverse_deviation, y);
  if (shape.features == 0) return;
  visit_float("batch_norm", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_inverse_deviation<T>(stream_of(x), shape.features, epsilon, variance.data<T>(),
                                inverse_deviation.data<T>());
    if (shape.rows == 0) return;
    launch_batch_normalize<T>(stream_of(x), shape, x.data<T>(), weight.data<T>(), bias.data<T>(),
                              mean.data<T>(), inverse_deviation.data<T>(), y.data<T>());
  });
}

void CudaKernels::batch_norm_parameter_gradients(const Tensor& x, const Tensor& mean,
                                                 const Tensor& inverse_deviation,
                                                 const Tensor& grad_y, const Tensor& grad_weight,
                                                 const Tensor& grad_bias) const {
  const BatchNormShape shape =
      batch_norm_parameter_shape(x, mean, inverse_deviation, grad_y, grad_weight, grad_bias);
  if (shape.features == 0) return;
  visit_float("batch_norm", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_batch_norm_parameter_gradients<T>(stream_of(x), shape, x.data<T>(), mean.data<T>(),
                                             inverse_deviation.data<T>(), grad_y.data<T>(),
                                             grad_weight.data<T>(), grad_bias.data<T>());
  });
}

void CudaKernels::batch_norm_input_gradient(const Tensor& x, const Tensor& weight,
                                            const Tensor& mean, const Tensor& inverse_deviation,
                                            const Tensor& grad_y, const Tensor& grad_weight,
                                            const Tensor& grad_bias, const Tensor& grad_x,
                                            bool accumulate) const {
  const BatchNormShape shape = batch_norm_input_shape(x, weight, mean, inverse_deviation, grad_y,
                                                      grad_weight, grad_bias, grad_x);
  if (x.count() == 0) return;
  visit_float("batch_norm", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_batch_norm_input_gradient<T>(
        stream_of(x), shape, x.data<T>(), weight.data<T>(), mean.data<T>(),
        inverse_deviation.data<T>(), grad_y.data<T>(),
        grad_weight.defined() ? grad_weight.data<T>() : nullptr,
        grad_bias.defined() ? grad_bias.data<T>() : nullptr, grad_x.data<T>(), accumulate);
  });
}

}  // namespace lockstep::kernels::cuda

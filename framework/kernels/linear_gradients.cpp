// The gradients of a linear layer from the kernels that every device has.
#include "framework/base/error.h"
#include "framework/kernels/kernels.h"

namespace lockstep::kernels {

void Kernels::linear_weight_gradient(const Tensor& grad_pre, const Tensor& x, const Tensor& grad_w,
                                     bool accumulate, const Tensor& grad_bias,
                                     bool accumulate_bias) const {
  matmul(grad_pre.transpose(0, 1), x, grad_w, accumulate);
  if (grad_bias.defined()) sum_to(1, grad_pre, grad_bias, accumulate_bias);
}

void Kernels::linear_input_gradient(const Tensor& grad_pre, const Tensor& w,
                                    const ActivationRecord& below, const Tensor& grad_x,
                                    bool accumulate) const {
  if (accumulate && below.activation != Activation::none)
    throw UsageError(
        "linear_input_gradient: found accumulate with an activation, whose gradient "
        "is written");
  matmul(grad_pre, w, grad_x, accumulate);
  if (below.activation != Activation::none)
    bias_activation_backward(below, grad_x, grad_x, {}, false);
}

}  // namespace lockstep::kernels

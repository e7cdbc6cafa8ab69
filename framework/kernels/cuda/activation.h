// Launchers of the linear layer's bias and activation. T is float or double; matrices are
// contiguous [rows, columns].
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/reduce.h"
#include "framework/kernels/operations.h"

namespace lockstep::kernels::cuda {

// y = f(product + bias) and, unless nullptr, pre = product + bias. `bias` may be nullptr; `product`
// may be pre or y.
template <class T>
void launch_bias_activation(const device::CudaStream& stream, std::int64_t rows,
                            std::int64_t columns, Activation activation, const T* bias,
                            const T* product, T* pre, T* y);

// grad_pre = grad_y * f'(.), and grad_bias (+)= its column sums, in one pass. `plan` is that of the
// sum down the columns, `parts` as for launch_sum. grad_bias may be nullptr, grad_pre be grad_y.
// Pre is T, or bfloat16 where T is float.
template <class T, class Pre>
void launch_bias_activation_backward(const device::CudaStream& stream, const SumPlan& plan,
                                     Activation activation, const T* saved, const T* grad_y,
                                     Pre* grad_pre, T* grad_bias, bool accumulate_bias,
                                     double* parts);

}  // namespace lockstep::kernels::cuda

// Launchers of batch normalisation. T is float or double; matrices are contiguous [rows, features],
// all else is [features]. The formulas are in kernels.h.
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/operations.h"

namespace lockstep::kernels::cuda {

// Mean and inverse deviation of the columns of x, and the running ones moved towards them.
template <class T>
void launch_batch_statistics(const device::CudaStream& stream, const BatchNormShape& shape,
                             const T* x, double epsilon, double momentum, T* running_mean,
                             T* running_variance, T* mean, T* inverse_deviation);
template <class T>
void launch_inverse_deviation(const device::CudaStream& stream, std::int64_t features,
                              double epsilon, const T* variance, T* inverse_deviation);
// y = (x - mean) * (inverse_deviation * weight) + bias
template <class T>
void launch_batch_normalize(const device::CudaStream& stream, const BatchNormShape& shape,
                            const T* x, const T* weight, const T* bias, const T* mean,
                            const T* inverse_deviation, T* y);
template <class T>
void launch_batch_norm_parameter_gradients(const device::CudaStream& stream,
                                           const BatchNormShape& shape, const T* x, const T* mean,
                                           const T* inverse_deviation, const T* grad_y,
                                           T* grad_weight, T* grad_bias);
// grad_weight and grad_bias are nullptr where mean and deviation were given.
template <class T>
void launch_batch_norm_input_gradient(const device::CudaStream& stream, const BatchNormShape& shape,
                                      const T* x, const T* weight, const T* mean,
                                      const T* inverse_deviation, const T* grad_y,
                                      const T* grad_weight, const T* grad_bias, T* grad_x,
                                      bool accumulate);

}  // namespace lockstep::kernels::cuda

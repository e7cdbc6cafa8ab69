// Launchers of the elementwise kernels; T is float or double.
#pragma once

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/operands.h"
#include "framework/kernels/operations.h"

namespace lockstep::kernels::cuda {

template <class T>
void launch_unary(const device::CudaStream& stream, const MapLoop& loop, Unary op, const T* x,
                  T* out);
// The loop's operands are grad_x, saved, grad_y and, when it accumulates, grad_x again.
template <class T>
void launch_unary_backward(const device::CudaStream& stream, const MapLoop& loop, Unary op,
                           const T* saved, const T* grad_y, T* grad_x, bool accumulate);
template <class T>
void launch_binary(const device::CudaStream& stream, const MapLoop& loop, Binary op, const T* a,
                   const T* b, T* out);
// Operands out, x and, when beta is not 0, out again.
template <class T>
void launch_axpby(const device::CudaStream& stream, const MapLoop& loop, T alpha, const T* x,
                  T beta, T* out);
// out (+)= alpha * a * b. Operands out, a, b and, when it accumulates, out again.
template <class T>
void launch_multiply(const device::CudaStream& stream, const MapLoop& loop, T alpha, const T* a,
                     const T* b, T* out, bool accumulate);

}  // namespace lockstep::kernels::cuda

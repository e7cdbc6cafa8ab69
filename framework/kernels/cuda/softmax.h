// Launchers of the softmax family. T is float or double; all matrices are contiguous [rows,
// length].
//
// A row is read from memory once: it stays in the cache of its multiprocessor while its largest
// element, its sum and the result are computed.
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::kernels::cuda {

template <class T>
void launch_softmax(const device::CudaStream& stream, std::int64_t rows, std::int64_t length,
                    const T* x, T* y);
template <class T>
void launch_log_softmax(const device::CudaStream& stream, std::int64_t rows, std::int64_t length,
                        const T* x, T* y);
template <class T>
void launch_softmax_backward(const device::CudaStream& stream, std::int64_t rows,
                             std::int64_t length, const T* y, const T* grad_y, T* grad_x,
                             bool accumulate);
template <class T>
void launch_log_softmax_backward(const device::CudaStream& stream, std::int64_t rows,
                                 std::int64_t length, const T* y, const T* grad_y, T* grad_x,
                                 bool accumulate);

}  // namespace lockstep::kernels::cuda

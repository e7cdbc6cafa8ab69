// From tensors to the loops that kernels take.
#pragma once

#include <span>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/axes.h"
#include "framework/kernels/cuda/operands.h"

namespace lockstep::kernels::cuda {

Space space_of(const Axes& axes);

// Operand 0 is the output, in the order of whose memory the loop goes; the others are broadcast to
// its shape. Throws UsageError naming the shapes where one does not broadcast.
MapLoop plan_map(std::span<const Tensor* const> operands);

template <class... Inputs>
MapLoop plan_map(const Tensor& out, const Inputs&... inputs) {
  const Tensor* const operands[] = {&out, &inputs...};
  return plan_map(std::span<const Tensor* const>(operands));
}

// The stream that the context's kernels go to.
inline const device::CudaStream& stream_of(const Tensor& tensor) {
  return device::cuda_stream(tensor.context().compute_stream());
}

// `t` itself when it is contiguous, otherwise a contiguous copy.
Tensor contiguous_on_device(const Tensor& t);

}  // namespace lockstep::kernels::cuda

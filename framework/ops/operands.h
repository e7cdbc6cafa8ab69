// What the operations share: checks of their operands, and small helpers on tensors. Internal to
// ops/.
#pragma once

#include <string_view>

#include "framework/autograd/node.h"
#include "framework/kernels/kernels.h"

namespace lockstep::ops {

// An operand as error messages name it.
struct Operand {
  std::string_view name;
  const Tensor& tensor;
};

// Each throws UsageError naming the op, the operands, what was found and what was expected.
void require_floating(std::string_view op, const Operand& x);
void require_alike(std::string_view op, const Operand& a, const Operand& b);  // dtype and context
void require_same_shape(std::string_view op, const Operand& a, const Operand& b);
Shape broadcast_shape(std::string_view op, const Operand& a, const Operand& b);
int checked_axis(std::string_view op, const Operand& x, int axis);  // -1 counts from the end

inline const kernels::Kernels& kernels_of(const Tensor& tensor) {
  return kernels::kernels_for(tensor.context());
}

inline Tensor empty_like(const Tensor& tensor) {
  return Tensor::empty(tensor.context(), tensor.shape(), tensor.dtype());
}

// The tensor itself, or a contiguous copy.
Tensor contiguous(const Tensor& tensor);

// Memory of the shape of `tensor` that may be written while `tensor` is read: its own when nothing
// else holds it, new otherwise.
Tensor scratch_for(const Tensor& tensor);

// slot (+)= alpha * gradient, summed over the axes in which the slot's shape was broadcast.
void sum_into(const autograd::GradientSlot& slot, double alpha, const Tensor& gradient);

// [..., n] as [rows, n]; `tensor` contiguous, of at least one axis.
Tensor as_rows(const Tensor& tensor);

// How many rows of a large weight's gradient are computed and announced at a time: about 1 MiB, a
// fraction of a bucket, in whole tiles of the matrix product.
std::int64_t rows_per_block(std::int64_t columns, DType dtype);

}  // namespace lockstep::ops

#include "framework/ops/operands.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::ops {

using base::name_of;
using base::to_string;

void require_floating(std::string_view op, const Operand& x) {
  if (x.tensor.dtype() != DType::float32 && x.tensor.dtype() != DType::float64) {
    throw UsageError(fmt::format("{}: {} has dtype {}, expected float32 or float64", op, x.name,
                                 name_of(x.tensor.dtype())));
  }
}

void require_alike(std::string_view op, const Operand& a, const Operand& b) {
  if (a.tensor.dtype() != b.tensor.dtype()) {
    throw UsageError(fmt::format("{}: {} {} has dtype {}, {} {} has dtype {}; expected the same",
                                 op, a.name, to_string(a.tensor.shape()), name_of(a.tensor.dtype()),
                                 b.name, to_string(b.tensor.shape()), name_of(b.tensor.dtype())));
  }
  if (&a.tensor.context() != &b.tensor.context()) {
    throw UsageError(fmt::format("{}: {} and {} belong to different contexts", op, a.name, b.name));
  }
}

void require_same_shape(std::string_view op, const Operand& a, const Operand& b) {
  if (a.tensor.shape() != b.tensor.shape()) {
    throw UsageError(fmt::format("{}: {} has shape {}, {} has shape {}; expected the same", op,
                                 a.name, to_string(a.tensor.shape()), b.name,
                                 to_string(b.tensor.shape())));
  }
}

Shape broadcast_shape(std::string_view op, const Operand& a, const Operand& b) {
  if (a.tensor.shape() == b.tensor.shape()) return a.tensor.shape();
  try {
    return base::broadcast(a.tensor.shape(), b.tensor.shape());
  } catch (const UsageError&) {
    throw UsageError(fmt::format("{}: {} of shape {} and {} of shape {} do not broadcast", op,
                                 a.name, to_string(a.tensor.shape()), b.name,
                                 to_string(b.tensor.shape())));
  }
}

int checked_axis(std::string_view op, const Operand& x, int axis) {
  const int rank = x.tensor.rank();
  if (axis < -rank || axis >= rank) {
    throw UsageError(fmt::format("{}: axis {} of {} of shape {}, expected one in [{}, {})", op,
                                 axis, x.name, to_string(x.tensor.shape()), -rank, rank));
  }
  return axis < 0 ? axis + rank : axis;
}

Tensor contiguous(const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  const Tensor copy = empty_like(tensor);
  kernels_of(tensor).copy(tensor, copy);
  return copy;
}

Tensor scratch_for(const Tensor& tensor) {
  const bool sole_owner = tensor.buffer().use_count() == 1;
  return sole_owner && tensor.is_contiguous() ? tensor : empty_like(tensor);
}

void sum_into(const autograd::GradientSlot& slot, double alpha, const Tensor& gradient) {
  if (slot.tensor.shape() == gradient.shape()) {
    kernels_of(gradient).axpby(alpha, gradient, slot.accumulate ? 1.0 : 0.0, slot.tensor);
  } else {
    kernels_of(gradient).sum_to(alpha, gradient, slot.tensor, slot.accumulate);
  }
}

Tensor as_rows(const Tensor& tensor) {
  const std::int64_t columns = tensor.shape().back();
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < tensor.rank(); ++axis) rows *= tensor.shape()[axis];
  return tensor.reshape(Shape{rows, columns});
}

std::int64_t rows_per_block(std::int64_t columns, DType dtype) {
  constexpr std::int64_t block_bytes = 1 << 20, tile_rows = 256;
  const auto row_bytes =
      std::max<std::int64_t>(1, columns * static_cast<std::int64_t>(base::size_of(dtype)));
  return tile_rows *
         std::max<std::int64_t>(1, (block_bytes / row_bytes + tile_rows / 2) / tile_rows);
}

}  // namespace lockstep::ops

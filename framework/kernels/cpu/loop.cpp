#include "framework/kernels/cpu/loop.h"

#include <utility>

#include "framework/kernels/cpu/dispatch.h"

namespace lockstep::kernels {

Strides broadcast_strides(const Tensor& operand, const Shape& shape) {
  const int missing = shape.rank() - operand.rank();
  Strides strides{};
  bool fits = missing >= 0;
  for (int axis = 0; fits && axis < operand.rank(); ++axis) {
    const std::int64_t extent = operand.shape()[axis], wanted = shape[axis + missing];
    fits = extent == wanted || extent == 1;
    if (extent != 1) {
      strides[static_cast<std::size_t>(axis + missing)] =
          operand.strides()[static_cast<std::size_t>(axis)];
    }
  }
  if (!fits) {
    throw UsageError(fmt::format("an operand of shape {} does not broadcast to {}",
                                 base::to_string(operand.shape()), base::to_string(shape)));
  }
  return strides;
}

int merge_axes(std::span<Axis> axes) {
  int kept = 0;
  for (const Axis& axis : axes) {
    if (axis.extent == 1) continue;
    if (kept > 0) {
      Axis& outer = axes[static_cast<std::size_t>(kept - 1)];
      bool even = true;
      for (std::size_t i = 0; i < max_operands; ++i) {
        even = even && outer.stride[i] == axis.stride[i] * axis.extent;
      }
      if (even) {
        outer.extent *= axis.extent;
        outer.stride = axis.stride;
        continue;
      }
    }
    axes[static_cast<std::size_t>(kept++)] = axis;
  }
  return kept;
}

Loop::Loop(std::span<const Tensor* const> operands) {
  const Shape& shape = operands[0]->shape();
  const auto rank = static_cast<std::size_t>(shape.rank());
  std::array<Axis, Shape::max_rank> axes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Strides strides = broadcast_strides(*operands[i], shape);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      axes[axis].extent = shape[static_cast<int>(axis)];
      axes[axis].stride[i] = strides[axis];
    }
  }
  // Insertion sort: stable, and unlike std::stable_sort it takes no memory.
  for (std::size_t i = 1; i < rank; ++i) {
    for (std::size_t j = i; j > 0 && axes[j - 1].stride[0] < axes[j].stride[0]; --j) {
      std::swap(axes[j - 1], axes[j]);
    }
  }
  const int merged = merge_axes({axes.data(), rank});
  outer_rank_ = std::max(merged - 1, 0);
  if (merged > 0) inner_ = axes[static_cast<std::size_t>(outer_rank_)];
  for (int axis = 0; axis < outer_rank_; ++axis) {
    outer_[static_cast<std::size_t>(axis)] = axes[static_cast<std::size_t>(axis)];
    rows_ *= axes[static_cast<std::size_t>(axis)].extent;
  }
}

std::array<std::int64_t, max_operands> Loop::offsets_of_row(std::int64_t row) const {
  std::array<std::int64_t, max_operands> offsets{};
  for (int axis = outer_rank_ - 1; axis >= 0; --axis) {
    const Axis& outer = outer_[static_cast<std::size_t>(axis)];
    const std::int64_t index = row % outer.extent;
    row /= outer.extent;
    for (std::size_t i = 0; i < max_operands; ++i) offsets[i] += index * outer.stride[i];
  }
  return offsets;
}

}  // namespace lockstep::kernels

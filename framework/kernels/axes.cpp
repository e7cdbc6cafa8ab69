#include "framework/kernels/axes.h"

#include <fmt/format.h>

#include "framework/base/error.h"

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

void Axes::merge() {
  int kept = 0;
  for (int i = 0; i < rank_; ++i) {
    const Axis axis = at(i);
    if (axis.extent == 1) continue;
    if (kept > 0 && at(kept - 1).stride == axis.extent * axis) {
      at(kept - 1).extent *= axis.extent;
      at(kept - 1).stride = axis.stride;
    } else {
      at(kept++) = axis;
    }
  }
  rank_ = kept;
}

std::int64_t Axes::count() const {
  std::int64_t count = 1;
  for (int i = 0; i < rank_; ++i) count *= axes_[static_cast<std::size_t>(i)].extent;
  return count;
}

Offsets Axes::offsets(std::int64_t index) const {
  Offsets offsets{};
  for (int i = rank_ - 1; i >= 0; --i) {
    const Axis& axis = axes_[static_cast<std::size_t>(i)];
    offsets = offsets + index % axis.extent * axis;
    index /= axis.extent;
  }
  return offsets;
}

Axes loop_axes(std::span<const Tensor* const> operands) {
  const Shape& shape = operands[0]->shape();
  std::array<Strides, max_operands> strides;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    strides[i] = broadcast_strides(*operands[i], shape);
  }
  Axes axes;
  for (int i = 0; i < shape.rank(); ++i) {
    Axis axis{shape[i], {}};
    for (std::size_t operand = 0; operand < operands.size(); ++operand) {
      axis.stride[operand] = strides[operand][static_cast<std::size_t>(i)];
    }
    axes.add(axis);
  }
  axes.sort([](const Axis& axis) { return axis.stride[0]; });
  axes.merge();
  return axes;
}

SumAxes sum_axes(const Tensor& out, const Tensor& a, const Tensor* b, const Shape& shape) {
  const Strides out_strides = broadcast_strides(out, shape);
  const Strides a_strides = broadcast_strides(a, shape);
  const Strides b_strides = b ? broadcast_strides(*b, shape) : Strides{};
  const int missing = shape.rank() - out.rank();
  SumAxes axes;
  for (int i = 0; i < shape.rank(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool sum = i < missing || (out.shape()[i - missing] == 1 && shape[i] != 1);
    (sum ? axes.summed : axes.kept)
        .add({shape[i], {out_strides[at], a_strides[at], b_strides[at]}});
  }
  return axes;
}

}  // namespace lockstep::kernels

#include "framework/kernels/cpu/axes.h"

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

}  // namespace lockstep::kernels

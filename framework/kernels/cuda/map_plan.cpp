#include "framework/kernels/cuda/map_plan.h"

#include <algorithm>

#include "framework/kernels/kernels.h"

namespace lockstep::kernels::cuda {

static_assert(most_operands == max_operands && most_axes == Shape::max_rank);

Space space_of(const Axes& axes) {
  Space space;
  space.count = axes.count();
  space.rank = axes.rank();
  for (int i = 0; i < axes.rank(); ++i) {
    space.extent[i] = axes[i].extent;
    std::copy(axes[i].stride.begin(), axes[i].stride.end(), space.stride[i]);
  }
  return space;
}

MapLoop plan_map(std::span<const Tensor* const> operands) {
  const Axes axes = loop_axes(operands);
  MapLoop loop;
  loop.space = space_of(axes);
  loop.count = loop.space.count;
  loop.flat = axes.rank() == 0;
  if (axes.rank() == 1) {
    const Offsets& stride = axes[0].stride;
    loop.flat =
        std::all_of(stride.begin(), stride.begin() + static_cast<std::ptrdiff_t>(operands.size()),
                    [](std::int64_t step) { return step == 1; });
  }
  return loop;
}

Tensor contiguous_on_device(const Tensor& t) {
  if (t.is_contiguous()) return t;
  const Tensor fresh = Tensor::empty(t.context(), t.shape(), t.dtype());
  kernels_for(t.context()).copy(t, fresh);
  return fresh;
}

}  // namespace lockstep::kernels::cuda

#include "framework/kernels/cuda/dropout.h"

#include <cmath>

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/device_state.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/dispatch.h"

namespace lockstep::kernels::cuda {

void CudaKernels::dropout(const Tensor& x, double p, const base::RandomStream& stream,
                          std::int64_t first_row, const Tensor& y, bool accumulate) const {
  require_shape("dropout", "y", y, x.shape());
  require_contiguous("dropout", "y", y);
  if (y.count() == 0) return;
  const Tensor in = contiguous_on_device(x);
  DeviceState& state = DeviceState::of(y.context());
  state.set_random_step(stream.step());
  const std::int64_t rows = x.rank() > 0 ? x.shape()[0] : 1;
  visit_float("dropout", y.dtype(), [&]<class T>(base::TypeTag<T>) {
    // A uniform of 24 bits is kept when it is at least p.
    const Dropout<T> dropout{.purpose = stream.purpose(),
                             .step = state.random_step(),
                             .threshold = static_cast<std::uint32_t>(std::ceil(p * 0x1p24)),
                             .scale = static_cast<T>(1 / (1 - p)),
                             .first_row = first_row,
                             .rows = rows,
                             .width = x.count() / rows,
                             .accumulate = accumulate};
    launch_dropout<T>(stream_of(y), dropout, in.data<T>(), y.data<T>());
  });
}

void CudaKernels::set_random_step(Context& context, std::uint64_t step) const {
  DeviceState::of(context).set_random_step(step);
}

}  // namespace lockstep::kernels::cuda

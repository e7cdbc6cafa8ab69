#include "framework/kernels/cuda/normalize_channels.h"

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/normalize_operands.h"

namespace lockstep::kernels::cuda {

void CudaKernels::normalize_channels(const Tensor& x, const Tensor& factor, const Tensor& offset,
                                     const Tensor& out) const {
  require_normalize_channels(x, factor, offset, out);
  visit_stored(x.dtype(), [&]<class Stored>(base::TypeTag<Stored>) {
    visit_float("normalize_channels", out.dtype(), [&]<class T>(base::TypeTag<T>) {
      launch_normalize_channels<Stored, T>(
          stream_of(out), {x.data<Stored>(), factor.data<T>(), offset.data<T>(), out.data<T>(),
                           out.count(), out.shape()[1], out.shape()[2]});
    });
  });
}

}  // namespace lockstep::kernels::cuda

#include "framework/kernels/cuda/embedding.h"

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/device_state.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/embedding_operands.h"

namespace lockstep::kernels::cuda {

void CudaKernels::gather_rows(const Tensor& table, const Tensor& indices, const Tensor& out) const {
  require_gather_rows(table, indices, out);
  const std::int64_t* const row_of = indices.data<std::int64_t>();
  const std::int64_t rows = table.shape()[0];
  const DeviceState& state = DeviceState::of(out.context());
  visit_float("gather_rows", table.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_gather_rows<T>(stream_of(out), indices.count(), rows, table.shape()[1], table.data<T>(),
                          row_of, out.data<T>(), state.first_bad_position());
  });
  launch_note_bad_index(stream_of(out), rows, row_of, state.first_bad_position(), state.noted());
}

void CudaKernels::sum_row_groups(const Tensor& x, const Tensor& starts, const Tensor& order,
                                 const Tensor& out, bool accumulate) const {
  require_sum_row_groups(x, starts, order, out);
  visit_float("sum_row_groups", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_sum_row_groups<T>(stream_of(out), out.shape()[0], out.shape()[1], x.data<T>(),
                             starts.data<std::int64_t>(), order.data<std::int64_t>(), out.data<T>(),
                             accumulate);
  });
}

}  // namespace lockstep::kernels::cuda

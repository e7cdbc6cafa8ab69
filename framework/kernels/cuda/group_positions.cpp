#include "framework/kernels/cuda/group_positions.h"

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/device_state.h"
#include "framework/kernels/cuda/embedding.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/embedding_operands.h"

namespace lockstep::kernels::cuda {

void CudaKernels::group_positions(const Tensor& indices, const Tensor& starts,
                                  const Tensor& order) const {
  require_group_positions(indices, starts, order);
  Context& context = indices.context();
  const PositionsByRow groups{indices.count(), starts.count() - 1, indices.data<std::int64_t>(),
                              starts.data<std::int64_t>(), order.data<std::int64_t>()};
  const Tensor counts = Tensor::empty(context, {counts_of_sort(groups.positions)}, DType::int64);
  const Tensor scratch = passes_of_sort(groups.rows) > 1
                             ? Tensor::empty(context, {groups.positions}, DType::int64)
                             : Tensor();
  const DeviceState& state = DeviceState::of(context);
  launch_group_positions(stream_of(indices), groups, counts.data<std::int64_t>(),
                         scratch.defined() ? scratch.data<std::int64_t>() : nullptr,
                         state.first_bad_position());
  launch_note_bad_index(stream_of(indices), groups.rows, groups.indices, state.first_bad_position(),
                        state.noted());
}

}  // namespace lockstep::kernels::cuda

#include "framework/kernels/cuda/embedding.h"

#include <vector>

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/cuda/result.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/embedding_operands.h"

namespace lockstep::kernels::cuda {

void CudaKernels::gather_rows(const Tensor& table, const Tensor& indices, const Tensor& out) const {
  check_gather_rows(table, indices, out);
  const std::int64_t* const row_of = indices.data<std::int64_t>();
  const Result<unsigned long long> first_bad(out.context(), 0xFF);  // the largest value
  visit_float("gather_rows", table.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_gather_rows<T>(stream_of(out), indices.count(), table.shape()[0], table.shape()[1],
                          table.data<T>(), row_of, out.data<T>(), first_bad.on_device());
  });
  const auto bad = static_cast<std::int64_t>(first_bad.get());  // -1 if there is none
  if (bad < 0) return;
  std::int64_t index = 0;
  out.context().download(&index, row_of + bad, sizeof index);
  throw_no_row(bad, index, table.shape()[0]);
}

// On the host: indices are few beside the elements of their rows, and gather_rows has waited for
// them before.
void CudaKernels::group_positions(const Tensor& indices, const Tensor& starts,
                                  const Tensor& order) const {
  check_group_positions(indices, starts, order);
  const std::vector<std::int64_t> row_of = indices.to_vector<std::int64_t>();
  std::vector<std::int64_t> host_starts(static_cast<std::size_t>(starts.count()));
  std::vector<std::int64_t> host_order(static_cast<std::size_t>(order.count()));
  group_positions_on_host(row_of, host_starts, host_order);
  starts.context().upload(starts.data(), host_starts.data(), starts.bytes());
  order.context().upload(order.data(), host_order.data(), order.bytes());
}

void CudaKernels::sum_row_groups(const Tensor& x, const Tensor& starts, const Tensor& order,
                                 const Tensor& out, bool accumulate) const {
  check_sum_row_groups(x, starts, order, out);
  visit_float("sum_row_groups", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_sum_row_groups<T>(stream_of(out), out.shape()[0], out.shape()[1], x.data<T>(),
                             starts.data<std::int64_t>(), order.data<std::int64_t>(), out.data<T>(),
                             accumulate);
  });
}

}  // namespace lockstep::kernels::cuda

// Rows of a table by index, and the sums that make its gradient.
#include <algorithm>
#include <numeric>
#include <span>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/embedding_operands.h"
#include "framework/kernels/noted_error.h"

namespace lockstep::kernels {
namespace {

void require_rows(std::span<const std::int64_t> indices, std::int64_t rows) {
  const auto bad = std::ranges::find_if(
      indices, [rows](std::int64_t index) { return index < 0 || index >= rows; });
  if (bad != indices.end()) throw_no_row(bad - indices.begin(), *bad, rows);
}

// A counting sort, stable, one pass over the rows and two over the positions.
void group_by_row(std::span<const std::int64_t> indices, std::span<std::int64_t> starts,
                  std::span<std::int64_t> order) {
  require_rows(indices, static_cast<std::int64_t>(starts.size()) - 1);
  // Row r counts in starts[r + 1], so that the running sum there is where r ends and, at first, in
  // starts[r] where it begins. Handing out places moves each begin to its end, which is the next
  // row's begin: one step to the right puts them back.
  std::ranges::fill(starts, 0);
  for (const std::int64_t index : indices) ++starts[static_cast<std::size_t>(index) + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  for (std::size_t position = 0; position < indices.size(); ++position) {
    std::int64_t& place = starts[static_cast<std::size_t>(indices[position])];
    order[static_cast<std::size_t>(place++)] = static_cast<std::int64_t>(position);
  }
  std::shift_right(starts.begin(), starts.end(), 1);
  starts.front() = 0;
}

}  // namespace

void CpuKernels::gather_rows(const Tensor& table, const Tensor& indices, const Tensor& out) const {
  require_gather_rows(table, indices, out);
  const std::span<const std::int64_t> row_of = indices.elements<std::int64_t>();
  require_rows(row_of, table.shape()[0]);
  const std::int64_t width = table.shape()[1];
  visit_float("gather_rows", table.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T* const from = table.data<T>();
    T* const to = out.data<T>();
    for_row_blocks(out.context(), indices.count(), width,
                   [=](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t position = begin; position < end; ++position) {
                       std::copy_n(from + row_of[static_cast<std::size_t>(position)] * width, width,
                                   to + position * width);
                     }
                   });
  });
}

void CpuKernels::group_positions(const Tensor& indices, const Tensor& starts,
                                 const Tensor& order) const {
  require_group_positions(indices, starts, order);
  group_by_row(indices.elements<std::int64_t>(), starts.elements<std::int64_t>(),
               order.elements<std::int64_t>());
}

void CpuKernels::sum_row_groups(const Tensor& x, const Tensor& starts, const Tensor& order,
                                const Tensor& out, bool accumulate) const {
  require_sum_row_groups(x, starts, order, out);
  const std::int64_t* const start_of = starts.data<std::int64_t>();
  const std::int64_t* const position_at = order.data<std::int64_t>();
  const std::int64_t width = out.shape()[1];
  visit_float("sum_row_groups", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T* const from = x.data<T>();
    T* const to = out.data<T>();
    for_row_blocks(out.context(), out.shape()[0], width, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        T* const sum = to + row * width;
        if (!accumulate) std::fill_n(sum, width, T(0));
        for (std::int64_t k = start_of[row]; k < start_of[row + 1]; ++k) {
          const T* const term = from + position_at[k] * width;
#pragma GCC ivdep
          for (std::int64_t i = 0; i < width; ++i) sum[i] += term[i];
        }
      }
    });
  });
}

}  // namespace lockstep::kernels

#include "framework/kernels/embedding_operands.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "framework/kernels/dispatch.h"

namespace lockstep::kernels {
namespace {

void require_operand(std::string_view kernel, std::string_view operand, const Tensor& tensor,
                     DType dtype) {
  require_contiguous(kernel, operand, tensor);
  if (tensor.dtype() == dtype) return;
  throw UsageError(fmt::format("{}: {} has dtype {}, expected {}", kernel, operand,
                               base::name_of(tensor.dtype()), base::name_of(dtype)));
}

}  // namespace

Shape embedding_shape(const Shape& indices, std::int64_t width) {
  const auto extents = indices.extents();
  std::vector<std::int64_t> all(extents.begin(), extents.end());
  all.push_back(width);
  return Shape(std::span<const std::int64_t>(all));
}

void check_gather_rows(const Tensor& table, const Tensor& indices, const Tensor& out) {
  require_rank("gather_rows", "table", table, 2);
  require_shape("gather_rows", "table", table, {table.shape()[0], table.shape()[1]});
  require_contiguous("gather_rows", "table", table);
  require_operand("gather_rows", "indices", indices, DType::int64);
  require_operand("gather_rows", "out", out, table.dtype());
  require_shape("gather_rows", "out", out, embedding_shape(indices.shape(), table.shape()[1]));
}

void check_group_positions(const Tensor& indices, const Tensor& starts, const Tensor& order) {
  require_operand("group_positions", "indices", indices, DType::int64);
  require_operand("group_positions", "starts", starts, DType::int64);
  require_operand("group_positions", "order", order, DType::int64);
  require_shape("group_positions", "starts", starts, {std::max<std::int64_t>(1, starts.count())});
  require_shape("group_positions", "order", order, {indices.count()});
}

void check_sum_row_groups(const Tensor& x, const Tensor& starts, const Tensor& order,
                          const Tensor& out) {
  require_rank("sum_row_groups", "out", out, 2);
  require_shape("sum_row_groups", "out", out, {out.shape()[0], out.shape()[1]});
  require_contiguous("sum_row_groups", "out", out);
  require_operand("sum_row_groups", "x", x, out.dtype());
  require_operand("sum_row_groups", "starts", starts, DType::int64);
  require_operand("sum_row_groups", "order", order, DType::int64);
  require_shape("sum_row_groups", "starts", starts, {out.shape()[0] + 1});
  require_shape("sum_row_groups", "order", order, {order.count()});
  require_shape("sum_row_groups", "x", x, {order.count(), out.shape()[1]});
}

void require_rows(std::span<const std::int64_t> indices, std::int64_t rows) {
  const auto bad = std::ranges::find_if(
      indices, [rows](std::int64_t index) { return index < 0 || index >= rows; });
  if (bad != indices.end()) throw_no_row(bad - indices.begin(), *bad, rows);
}

void throw_no_row(std::int64_t position, std::int64_t index, std::int64_t rows) {
  throw UsageError(fmt::format("embedding: the index at position {} is {}, expected one in [0, {})",
                               position, index, rows));
}

void group_positions_on_host(std::span<const std::int64_t> indices, std::span<std::int64_t> starts,
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

}  // namespace lockstep::kernels

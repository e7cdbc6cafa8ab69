#include "framework/kernels/embedding_operands.h"

#include <algorithm>
#include <vector>

#include "framework/kernels/dispatch.h"

namespace lockstep::kernels {

Shape embedding_shape(const Shape& indices, std::int64_t width) {
  const auto extents = indices.extents();
  std::vector<std::int64_t> all(extents.begin(), extents.end());
  all.push_back(width);
  return Shape(std::span<const std::int64_t>(all));
}

void require_gather_rows(const Tensor& table, const Tensor& indices, const Tensor& out) {
  require_rank("gather_rows", "table", table, 2);
  require_operand("gather_rows", "table", table, {table.shape()[0], table.shape()[1]},
                  table.dtype());
  require_operand("gather_rows", "indices", indices, indices.shape(), DType::int64);
  require_operand("gather_rows", "out", out, embedding_shape(indices.shape(), table.shape()[1]),
                  table.dtype());
}

void require_group_positions(const Tensor& indices, const Tensor& starts, const Tensor& order) {
  require_operand("group_positions", "indices", indices, indices.shape(), DType::int64);
  require_operand("group_positions", "starts", starts, {std::max<std::int64_t>(1, starts.count())},
                  DType::int64);
  require_operand("group_positions", "order", order, {indices.count()}, DType::int64);
}

void require_sum_row_groups(const Tensor& x, const Tensor& starts, const Tensor& order,
                            const Tensor& out) {
  require_rank("sum_row_groups", "out", out, 2);
  require_operand("sum_row_groups", "out", out, {out.shape()[0], out.shape()[1]}, out.dtype());
  require_operand("sum_row_groups", "starts", starts, {out.shape()[0] + 1}, DType::int64);
  require_operand("sum_row_groups", "order", order, {order.count()}, DType::int64);
  require_operand("sum_row_groups", "x", x, {order.count(), out.shape()[1]}, out.dtype());
}

}  // namespace lockstep::kernels

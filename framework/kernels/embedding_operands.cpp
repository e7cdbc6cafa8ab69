#include "framework/kernels/embedding_operands.h"

#include <algorithm>
#include <vector>

#include "framework/kernels/dispatch.h"

namespace lockstep::kernels {
namespace {

void require_operand(std::string_view kernel, std::string_view operand, const Tensor& tensor,
                     DType dtype) {
  require_contiguous(kernel, operand, tensor);
  require_dtype(kernel, operand, tensor, dtype);
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

}  // namespace lockstep::kernels

#include "framework/ops/embedding.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/kernels/embedding_operands.h"
#include "framework/ops/operands.h"

namespace lockstep::ops {

using autograd::GradientSlot;
using autograd::InputGradients;

namespace {

// The positions of each row, as kernels::Kernels::group_positions describes them.
struct RowGroups {
  Tensor starts;
  Tensor order;
};

RowGroups group(const Tensor& indices, std::int64_t rows) {
  Context& context = indices.context();
  RowGroups groups{Tensor::empty(context, Shape{rows + 1}, DType::int64),
                   Tensor::empty(context, Shape{indices.count()}, DType::int64)};
  kernels_of(indices).group_positions(indices, groups.starts, groups.order);
  return groups;
}

class EmbeddingNode final : public autograd::Node {
 public:
  EmbeddingNode(std::span<const Variable> inputs, RowGroups groups)
      : Node("embedding", inputs), groups_(std::move(groups)) {}

  // In blocks of rows, so that a large table does not become one long wait for communication. A
  // row's bits do not depend on its block.
  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    const GradientSlot slot = gradients.slot(0);
    const std::int64_t rows = slot.tensor.shape()[0], width = slot.tensor.shape()[1];
    const Tensor grad = as_rows(contiguous(grad_output));
    const std::int64_t block = rows_per_block(width, slot.tensor.dtype());
    for (std::int64_t begin = 0; begin < rows; begin += block) {
      const std::int64_t end = std::min(rows, begin + block);
      kernels_of(grad).sum_row_groups(grad, groups_.starts.slice(0, begin, end + 1), groups_.order,
                                      slot.tensor.slice(0, begin, end), slot.accumulate);
      if (width > 0) gradients.finished(0, end * width);
    }
  }
  void release() override { groups_ = {}; }

 private:
  RowGroups groups_;
};

void require_operands(const Tensor& table, const Tensor& indices) {
  require_floating("embedding", {"table", table});
  if (table.rank() != 2) {
    throw UsageError(fmt::format("embedding: table has shape {}, expected [rows, width]",
                                 base::to_string(table.shape())));
  }
  if (!indices.defined() || indices.dtype() != DType::int64) {
    throw UsageError(fmt::format(
        "embedding: indices are {}, expected int64",
        indices.defined()
            ? fmt::format("{} {}", base::name_of(indices.dtype()), base::to_string(indices.shape()))
            : "undefined"));
  }
  if (&indices.context() != &table.context()) {
    throw UsageError("embedding: table and indices belong to different contexts");
  }
}

}  // namespace

Variable embedding(const Variable& table, const Tensor& indices) {
  require_operands(table.value(), indices);
  const Tensor rows = contiguous(table.value()), positions = contiguous(indices);
  const Tensor y = Tensor::empty(
      table.context(), kernels::embedding_shape(indices.shape(), rows.shape()[1]), table.dtype());
  kernels_of(y).gather_rows(rows, positions, y);
  RowGroups groups;
  if (autograd::must_record({&table, 1})) groups = group(positions, rows.shape()[0]);
  return autograd::record<EmbeddingNode>(y, {&table, 1}, std::move(groups));
}

}  // namespace lockstep::ops

// What the embedding kernels of every kind of device check of their operands.
#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

namespace lockstep::kernels {

// [indices..., width]; throws UsageError when that has more axes than a shape can have.
Shape embedding_shape(const Shape& indices, std::int64_t width);

// Each throws UsageError naming the operand, what was found and what was expected.
void require_gather_rows(const Tensor& table, const Tensor& indices, const Tensor& out);
void require_group_positions(const Tensor& indices, const Tensor& starts, const Tensor& order);
void require_sum_row_groups(const Tensor& x, const Tensor& starts, const Tensor& order,
                            const Tensor& out);

}  // namespace lockstep::kernels

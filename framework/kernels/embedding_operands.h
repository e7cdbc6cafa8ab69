// What the embedding kernels of every kind of device share: the checks of their operands, and the
// grouping of positions by row, which is done on the host.
#pragma once

#include <cstdint>
#include <span>

#include "framework/tensor/tensor.h"

namespace lockstep::kernels {

// [indices..., width]; throws UsageError when that has more axes than a shape can have.
Shape embedding_shape(const Shape& indices, std::int64_t width);

// Each throws UsageError naming the operand, what was found and what was expected.
void check_gather_rows(const Tensor& table, const Tensor& indices, const Tensor& out);
void check_group_positions(const Tensor& indices, const Tensor& starts, const Tensor& order);
void check_sum_row_groups(const Tensor& x, const Tensor& starts, const Tensor& order,
                          const Tensor& out);
// Also when an index is not one of a table's `rows`.
void require_rows(std::span<const std::int64_t> indices, std::int64_t rows);
[[noreturn]] void throw_no_row(std::int64_t position, std::int64_t index, std::int64_t rows);

// Kernels::group_positions on host memory: a counting sort, stable, one pass over the rows and two
// over the positions.
void group_positions_on_host(std::span<const std::int64_t> indices, std::span<std::int64_t> starts,
                             std::span<std::int64_t> order);

}  // namespace lockstep::kernels

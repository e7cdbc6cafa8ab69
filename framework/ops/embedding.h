#pragma once

#include "framework/autograd/variable.h"

namespace lockstep::ops {

// The rows of `table` [rows, width] that int64 `indices` of any shape name: [indices..., width]. An
// index that is no row is a UsageError naming its position (row-major), its value and the range,
// which on a GPU is for who reads a result to ask for (kernels::Kernels::throw_noted_error).
// The gradient of a row is the sum over its positions in their order.
Variable embedding(const Variable& table, const Tensor& indices);

}  // namespace lockstep::ops

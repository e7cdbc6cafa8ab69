#pragma once

#include <vector>

#include "framework/autograd/variable.h"

namespace lockstep::ops {

// One extent may be -1: whatever is left. Copies only when x is not contiguous.
Variable reshape(const Variable& x, std::vector<std::int64_t> extents);
Variable transpose(const Variable& x, int axis_a, int axis_b);
Variable slice(const Variable& x, int axis, std::int64_t begin, std::int64_t end);
Variable concat(const std::vector<Variable>& parts, int axis);

}  // namespace lockstep::ops

#pragma once

#include <span>

#include "framework/autograd/variable.h"

namespace lockstep::ops {

// Over the given axes (negative ones count from the end; none means all). Reduced axes are dropped
// unless keep_axes.
Variable sum(const Variable& x, std::span<const int> axes = {}, bool keep_axes = false);
Variable mean(const Variable& x, std::span<const int> axes = {}, bool keep_axes = false);

}  // namespace lockstep::ops

#pragma once

#include <string_view>

#include "framework/autograd/variable.h"

namespace lockstep::ops {

// Zeroes elements with probability p in [0, 1) and scales the rest by 1 / (1 - p). The mask is a
// function of the context's (seed, step), of `name` and of the row's place in the global batch.
Variable dropout(const Variable& x, double p, std::string_view name);

}  // namespace lockstep::ops

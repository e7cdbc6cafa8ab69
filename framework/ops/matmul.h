#pragma once

#include "framework/autograd/variable.h"

namespace lockstep::ops {

// Over the last two axes; leading axes broadcast. Both operands have at least two axes.
Variable matmul(const Variable& a, const Variable& b);

}  // namespace lockstep::ops

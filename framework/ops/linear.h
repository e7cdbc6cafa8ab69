#pragma once

#include "framework/autograd/variable.h"
#include "framework/kernels/kernels.h"

namespace lockstep::ops {

// activation(x * w^T + bias). x [..., in], w [out, in], bias [out] or undefined.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias,
                Activation activation = Activation::none);

}  // namespace lockstep::ops

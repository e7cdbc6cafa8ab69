#pragma once

#include "framework/autograd/variable.h"

namespace lockstep::ops {

// Sum over all elements of (prediction - target)^2, times `scale`; equal shapes.
Variable squared_error(const Variable& prediction, const Tensor& target, double scale = 1.0);
// Mean squared error: squared_error with scale 1 / count.
Variable mse(const Variable& prediction, const Tensor& target);

}  // namespace lockstep::ops

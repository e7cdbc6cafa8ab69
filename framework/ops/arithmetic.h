#pragma once

#include "framework/autograd/variable.h"

namespace lockstep::ops {

// Elementwise with NumPy's broadcasting; both operands of one dtype.
Variable add(const Variable& a, const Variable& b);
Variable subtract(const Variable& a, const Variable& b);
Variable multiply(const Variable& a, const Variable& b);
Variable divide(const Variable& a, const Variable& b);
Variable scale(const Variable& x, double factor);

}  // namespace lockstep::ops

namespace lockstep::autograd {

// Found by argument-dependent lookup, so that a formula reads like one.
Variable operator+(const Variable& a, const Variable& b);
Variable operator-(const Variable& a, const Variable& b);
Variable operator*(const Variable& a, const Variable& b);
Variable operator/(const Variable& a, const Variable& b);
Variable operator*(const Variable& x, double factor);

}  // namespace lockstep::autograd

#pragma once

#include "framework/autograd/variable.h"

namespace lockstep::ops {

Variable relu(const Variable& x);
Variable gelu(const Variable& x);  // the exact form, x * Phi(x) (Hendrycks, Gimpel 2016)
Variable tanh(const Variable& x);
Variable sigmoid(const Variable& x);
Variable exp(const Variable& x);
Variable log(const Variable& x);

}  // namespace lockstep::ops

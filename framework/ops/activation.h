#pragma once

#include "framework/autograd/variable.h"

namespace lockstep::ops {

Variable relu(const Variable& x);
// x * Phi(x), exact, and its approximation by tanh, which GPT-2 uses (Hendrycks, Gimpel 2016).
Variable gelu(const Variable& x);
Variable gelu_tanh(const Variable& x);
Variable tanh(const Variable& x);
Variable sigmoid(const Variable& x);
Variable exp(const Variable& x);
Variable log(const Variable& x);

}  // namespace lockstep::ops

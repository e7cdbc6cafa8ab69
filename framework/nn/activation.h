// Activations as modules, for use in a Sequential. Where one follows a linear layer, the layer's
// fused activation is faster.
#pragma once

#include "framework/nn/module.h"
#include "framework/ops/activation.h"

namespace lockstep::nn {

class Relu final : public Module {
 public:
  Variable forward(const Variable& x) override { return ops::relu(x); }
};

class Gelu final : public Module {
 public:
  Variable forward(const Variable& x) override { return ops::gelu(x); }
};

class GeluTanh final : public Module {
 public:
  Variable forward(const Variable& x) override { return ops::gelu_tanh(x); }
};

class Tanh final : public Module {
 public:
  Variable forward(const Variable& x) override { return ops::tanh(x); }
};

class Sigmoid final : public Module {
 public:
  Variable forward(const Variable& x) override { return ops::sigmoid(x); }
};

}  // namespace lockstep::nn

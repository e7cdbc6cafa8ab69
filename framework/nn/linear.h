#pragma once

#include <cstdint>

#include "framework/kernels/kernels.h"
#include "framework/nn/module.h"

namespace lockstep::nn {

struct LinearOptions {
  bool bias = true;
  Activation activation = Activation::none;  // fused: one pass over the output instead of two
  DType dtype = DType::float32;
  Initializer weight_initializer = {};  // default_weight_initializer(activation) when empty
};

// What suits the activation that follows: Kaiming uniform for relu and either gelu, Xavier uniform
// for tanh and sigmoid. Without one it is PyTorch's default for linear layers, Kaiming uniform with
// the gain of a leaky relu of slope sqrt(5), which is uniform within 1 / sqrt(in).
Initializer default_weight_initializer(Activation activation);

// activation(x * weight^T + bias): x [..., in] to [..., out]. Parameters "weight" [out, in] and,
// unless turned off, "bias" [out], which starts at zero.
class Linear final : public Module {
 public:
  // Throws UsageError when an extent is not positive.
  Linear(Context& context, std::int64_t in, std::int64_t out, const LinearOptions& options = {});

  Variable forward(const Variable& x) override;

  const Variable& weight() const { return weight_; }
  const Variable& bias() const { return bias_; }  // undefined when there is none

 private:
  Activation activation_;
  Variable weight_;
  Variable bias_;
};

}  // namespace lockstep::nn

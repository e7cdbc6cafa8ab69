#include "framework/nn/linear.h"

#include <fmt/core.h>

#include <cmath>

#include "framework/base/error.h"
#include "framework/nn/init.h"
#include "framework/ops/linear.h"

namespace lockstep::nn {

Initializer default_weight_initializer(Activation activation) {
  switch (activation) {
    case Activation::none:
      return kaiming_uniform(leaky_relu_gain(std::sqrt(5.0)));
    case Activation::relu:
    case Activation::gelu:
    case Activation::gelu_tanh:
      return kaiming_uniform(gain_of(activation));
    case Activation::tanh:
    case Activation::sigmoid:
      return xavier_uniform(gain_of(activation));
  }
  __builtin_unreachable();
}

Linear::Linear(Context& context, std::int64_t in, std::int64_t out, const LinearOptions& options)
    : activation_(options.activation) {
  if (in < 1 || out < 1) {
    throw UsageError(
        fmt::format("linear layer: from {} to {}, expected positive extents", in, out));
  }
  weight_ = register_parameter("weight", Tensor::empty(context, Shape{out, in}, options.dtype),
                               options.weight_initializer
                                   ? options.weight_initializer
                                   : default_weight_initializer(options.activation));
  if (options.bias) {
    bias_ = register_parameter("bias", Tensor::empty(context, Shape{out}, options.dtype), zeros());
  }
}

Variable Linear::forward(const Variable& x) {
  return ops::linear(x, weight_, bias_, activation_);
}

}  // namespace lockstep::nn

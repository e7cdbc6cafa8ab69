#include "framework/ops/activation.h"

#include "framework/ops/operands.h"

namespace lockstep::ops {

using kernels::Unary;

namespace {

// The gradient follows from the input for some functions, from the output for the others; only that
// one is saved.
bool needs_input(Unary function) {
  return gradient_from(function) == kernels::GradientFrom::input;
}

class UnaryNode final : public autograd::Node {
 public:
  UnaryNode(std::span<const Variable> inputs, std::string_view op, Unary function, Tensor saved)
      : Node(op, inputs), function_(function), saved_(std::move(saved)) {}

  void backward(const Tensor& grad_output, autograd::InputGradients& gradients) override {
    const Tensor not_saved;
    const Tensor& x = needs_input(function_) ? saved_ : not_saved;
    const Tensor& y = needs_input(function_) ? not_saved : saved_;
    const autograd::GradientSlot slot = gradients.slot(0);
    kernels_of(grad_output)
        .unary_backward(function_, x, y, grad_output, slot.tensor, slot.accumulate);
  }
  void release() override { saved_ = {}; }

 private:
  Unary function_;
  Tensor saved_;
};

Variable apply(std::string_view op, Unary function, const Variable& x) {
  require_floating(op, {"x", x.value()});
  const Tensor y = empty_like(x.value());
  kernels_of(y).unary(function, x.value(), y);
  return autograd::record<UnaryNode>(y, {&x, 1}, op, function,
                                     needs_input(function) ? x.value() : y);
}

}  // namespace

Variable relu(const Variable& x) {
  return apply("relu", Unary::relu, x);
}
Variable gelu(const Variable& x) {
  return apply("gelu", Unary::gelu, x);
}
Variable gelu_tanh(const Variable& x) {
  return apply("gelu_tanh", Unary::gelu_tanh, x);
}
Variable tanh(const Variable& x) {
  return apply("tanh", Unary::tanh, x);
}
Variable sigmoid(const Variable& x) {
  return apply("sigmoid", Unary::sigmoid, x);
}
Variable exp(const Variable& x) {
  return apply("exp", Unary::exp, x);
}
Variable log(const Variable& x) {
  return apply("log", Unary::log, x);
}

}  // namespace lockstep::ops

#include "framework/ops/softmax.h"

#include <fmt/format.h>

#include "framework/ops/operands.h"

namespace lockstep::ops {

namespace {

enum class Form { softmax, log_softmax };

class SoftmaxNode final : public autograd::Node {
 public:
  SoftmaxNode(std::span<const Variable> inputs, std::string_view op, Form form, Tensor y)
      : Node(op, inputs), form_(form), y_(std::move(y)) {}

  void backward(const Tensor& grad_output, autograd::InputGradients& gradients) override {
    const Tensor grad = contiguous(grad_output);
    const autograd::GradientSlot slot = gradients.slot(0);
    if (form_ == Form::softmax) {
      kernels_of(grad).softmax_backward(y_, grad, slot.tensor, slot.accumulate);
    } else {
      kernels_of(grad).log_softmax_backward(y_, grad, slot.tensor, slot.accumulate);
    }
  }
  void release() override { y_ = {}; }

 private:
  Form form_;
  Tensor y_;
};

Variable apply(std::string_view op, Form form, const Variable& variable) {
  require_floating(op, {"x", variable.value()});
  if (variable.value().rank() == 0) {
    throw UsageError(fmt::format("{}: x is a scalar, expected at least one axis", op));
  }
  const Tensor x = contiguous(variable.value());
  const Tensor y = empty_like(x);
  if (form == Form::softmax) {
    kernels_of(x).softmax(x, y);
  } else {
    kernels_of(x).log_softmax(x, y);
  }
  return autograd::record<SoftmaxNode>(y, {&variable, 1}, op, form, y);
}

}  // namespace

Variable softmax(const Variable& x) {
  return apply("softmax", Form::softmax, x);
}
Variable log_softmax(const Variable& x) {
  return apply("log_softmax", Form::log_softmax, x);
}

}  // namespace lockstep::ops

#include "framework/ops/arithmetic.h"

#include "framework/ops/operands.h"

namespace lockstep::ops {

using autograd::GradientSlot;
using autograd::InputGradients;
using autograd::Node;
using kernels::Binary;

namespace {

// The gradient of an operand that was added as it is: the incoming one, summed over broadcast axes.
void pass_on(InputGradients& gradients, std::size_t i, const Shape& shape, const Tensor& grad) {
  if (shape == grad.shape()) {
    gradients.give(i, grad);
  } else {
    sum_into(gradients.slot(i), 1.0, grad);
  }
}

// a + sign * b
class SumNode final : public Node {
 public:
  SumNode(std::span<const Variable> inputs, std::string_view op, double sign)
      : Node(op, inputs), sign_(sign), a_shape_(inputs[0].shape()), b_shape_(inputs[1].shape()) {}

  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    if (gradients.wanted(0)) pass_on(gradients, 0, a_shape_, grad_output);
    if (!gradients.wanted(1)) return;
    if (sign_ == 1.0) {
      pass_on(gradients, 1, b_shape_, grad_output);
    } else {
      sum_into(gradients.slot(1), sign_, grad_output);
    }
  }
  void release() override {}

 private:
  double sign_;
  Shape a_shape_;
  Shape b_shape_;
};

class MultiplyNode final : public Node {
 public:
  explicit MultiplyNode(std::span<const Variable> inputs) : Node("multiply", inputs) {
    if (inputs[0].requires_grad()) factors_[0] = inputs[1].value();
    if (inputs[1].requires_grad()) factors_[1] = inputs[0].value();
  }

  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    for (const std::size_t i : {0u, 1u}) {
      if (!gradients.wanted(i)) continue;
      const GradientSlot slot = gradients.slot(i);
      kernels_of(grad_output)
          .multiply_sum_to(1.0, grad_output, factors_[i], slot.tensor, slot.accumulate);
    }
  }
  void release() override { factors_ = {}; }

 private:
  std::array<Tensor, 2> factors_;  // of which the incoming gradient becomes that of a, of b
};

// y = a / b: da = g / b, db = -(g / b) * y.
class DivideNode final : public Node {
 public:
  DivideNode(std::span<const Variable> inputs, Tensor y)
      : Node("divide", inputs), a_shape_(inputs[0].shape()), b_(inputs[1].value()) {
    if (inputs[1].requires_grad()) y_ = std::move(y);
  }

  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    const Tensor quotient = scratch_for(grad_output);
    kernels_of(quotient).binary(Binary::divide, grad_output, b_, quotient);
    if (gradients.wanted(1)) {
      const GradientSlot slot = gradients.slot(1);
      kernels_of(quotient).multiply_sum_to(-1.0, quotient, y_, slot.tensor, slot.accumulate);
    }
    if (gradients.wanted(0)) pass_on(gradients, 0, a_shape_, quotient);
  }
  void release() override { b_ = y_ = {}; }

 private:
  Shape a_shape_;
  Tensor b_;
  Tensor y_;
};

class ScaleNode final : public Node {
 public:
  ScaleNode(std::span<const Variable> inputs, double factor)
      : Node("scale", inputs), factor_(factor) {}

  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    sum_into(gradients.slot(0), factor_, grad_output);
  }
  void release() override {}

 private:
  double factor_;
};

Tensor combine(std::string_view op, Binary function, const Tensor& a, const Tensor& b) {
  const Operand left{"a", a}, right{"b", b};
  require_floating(op, left);
  require_alike(op, left, right);
  const Tensor out = Tensor::empty(a.context(), broadcast_shape(op, left, right), a.dtype());
  kernels_of(out).binary(function, a, b, out);
  return out;
}

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  const Variable inputs[] = {a, b};
  return autograd::record<SumNode>(combine("add", Binary::add, a.value(), b.value()), inputs, "add",
                                   1.0);
}

Variable subtract(const Variable& a, const Variable& b) {
  const Variable inputs[] = {a, b};
  return autograd::record<SumNode>(combine("subtract", Binary::subtract, a.value(), b.value()),
                                   inputs, "subtract", -1.0);
}

Variable multiply(const Variable& a, const Variable& b) {
  const Variable inputs[] = {a, b};
  return autograd::record<MultiplyNode>(combine("multiply", Binary::multiply, a.value(), b.value()),
                                        inputs);
}

Variable divide(const Variable& a, const Variable& b) {
  const Variable inputs[] = {a, b};
  const Tensor y = combine("divide", Binary::divide, a.value(), b.value());
  return autograd::record<DivideNode>(y, inputs, y);
}

Variable scale(const Variable& x, double factor) {
  require_floating("scale", {"x", x.value()});
  const Tensor y = empty_like(x.value());
  kernels_of(y).axpby(factor, x.value(), 0.0, y);
  return autograd::record<ScaleNode>(y, {&x, 1}, factor);
}

}  // namespace lockstep::ops

namespace lockstep::autograd {

Variable operator+(const Variable& a, const Variable& b) {
  return ops::add(a, b);
}
Variable operator-(const Variable& a, const Variable& b) {
  return ops::subtract(a, b);
}
Variable operator*(const Variable& a, const Variable& b) {
  return ops::multiply(a, b);
}
Variable operator/(const Variable& a, const Variable& b) {
  return ops::divide(a, b);
}
Variable operator*(const Variable& x, double factor) {
  return ops::scale(x, factor);
}

}  // namespace lockstep::autograd

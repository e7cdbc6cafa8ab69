#include "framework/ops/matmul.h"

#include <fmt/format.h>

#include "framework/ops/operands.h"

namespace lockstep::ops {

using autograd::GradientSlot;
using autograd::InputGradients;

namespace {

// The leading axes of the product, then `rows` and `columns`.
Shape with_matrix(const Shape& batch_from, std::int64_t rows, std::int64_t columns) {
  Shape shape = batch_from;
  shape[shape.rank() - 2] = rows;
  shape[shape.rank() - 1] = columns;
  return shape;
}

Tensor transposed(const Tensor& tensor) {
  return tensor.transpose(-2, -1);
}

// slot (+)= a * b, summed over the leading axes in which the slot's operand was broadcast.
void product_into(const GradientSlot& slot, const Tensor& a, const Tensor& b,
                  const Shape& product) {
  if (slot.tensor.shape() == product) {
    kernels_of(a).matmul(a, b, slot.tensor, slot.accumulate);
    return;
  }
  const Tensor full = Tensor::empty(a.context(), product, a.dtype());
  kernels_of(a).matmul(a, b, full, false);
  kernels_of(a).sum_to(1.0, full, slot.tensor, slot.accumulate);
}

class MatmulNode final : public autograd::Node {
 public:
  explicit MatmulNode(std::span<const Variable> inputs)
      : Node("matmul", inputs), a_shape_(inputs[0].shape()), b_shape_(inputs[1].shape()) {
    if (inputs[1].requires_grad()) a_ = inputs[0].value();
    if (inputs[0].requires_grad()) b_ = inputs[1].value();
  }

  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    const std::int64_t m = a_shape_[-2 + a_shape_.rank()], k = a_shape_.back(), n = b_shape_.back();
    const Shape& batch = grad_output.shape();
    if (gradients.wanted(1)) {
      const GradientSlot slot = gradients.slot(1);
      if (b_shape_.rank() == 2 && a_.rank() > 2 && a_.is_contiguous()) {
        // One matrix for the whole batch: sum over it within one product.
        kernels_of(a_).matmul(transposed(as_rows(a_)), as_rows(contiguous(grad_output)),
                              slot.tensor, slot.accumulate);
      } else {
        product_into(slot, transposed(a_), grad_output, with_matrix(batch, k, n));
      }
    }
    if (gradients.wanted(0)) {
      product_into(gradients.slot(0), grad_output, transposed(b_), with_matrix(batch, m, k));
    }
  }
  void release() override { a_ = b_ = {}; }

 private:
  Shape a_shape_;
  Shape b_shape_;
  Tensor a_;  // only what the gradients that are wanted read
  Tensor b_;
};

Shape product_shape(const Tensor& a, const Tensor& b) {
  const auto fail = [&] {
    return UsageError(fmt::format(
        "matmul: a has shape {}, b has shape {}; expected [..., m, k] and [..., k, n] with leading "
        "axes that broadcast",
        base::to_string(a.shape()), base::to_string(b.shape())));
  };
  if (a.rank() < 2 || b.rank() < 2) throw fail();
  if (a.shape().back() != b.shape()[b.rank() - 2]) throw fail();
  const std::int64_t m = a.shape()[a.rank() - 2], n = b.shape().back();
  try {
    return with_matrix(base::broadcast(with_matrix(a.shape(), 1, 1), with_matrix(b.shape(), 1, 1)),
                       m, n);
  } catch (const UsageError&) {
    throw fail();
  }
}

}  // namespace

Variable matmul(const Variable& a, const Variable& b) {
  require_floating("matmul", {"a", a.value()});
  require_alike("matmul", {"a", a.value()}, {"b", b.value()});
  const Tensor c = Tensor::empty(a.context(), product_shape(a.value(), b.value()), a.dtype());
  kernels_of(c).matmul(a.value(), b.value(), c, false);
  const Variable inputs[] = {a, b};
  return autograd::record<MatmulNode>(c, inputs);
}

}  // namespace lockstep::ops

#include "framework/ops/linear.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/ops/operands.h"

namespace lockstep::ops {

using autograd::GradientSlot;
using autograd::InputGradients;

namespace {

constexpr std::size_t x_index = 0, weight_index = 1, bias_index = 2;

// What the backward reads; rows are x's leading axes flattened.
struct Saved {
  Tensor x;       // [rows, in], for the weight's gradient
  Tensor weight;  // [out, in], for the input's
  Tensor pre;     // [rows, out], before the activation; gelu only
  Tensor y;       // [rows, out]; activations other than none
};

class LinearNode final : public autograd::Node {
 public:
  LinearNode(std::span<const Variable> inputs, Activation activation, Saved saved)
      : Node("linear", inputs),
        activation_(activation),
        has_bias_(inputs.size() > bias_index),
        saved_(std::move(saved)) {}

  // Parameters first, announced as they are finished: their gradients can travel while the input's
  // is computed.
  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    const Tensor grad_pre = activation_backward(grad_output, gradients);
    if (gradients.wanted(weight_index)) {
      weight_backward(grad_pre, gradients);
    }
    saved_.x = saved_.pre = saved_.y = {};
    if (gradients.wanted(x_index)) {
      const GradientSlot slot = gradients.slot(x_index);
      const Tensor rows = slot.tensor.reshape(Shape{grad_pre.shape()[0], saved_.weight.shape()[1]});
      kernels_of(grad_pre).matmul(grad_pre, saved_.weight, rows, slot.accumulate);
    }
  }
  void release() override { saved_ = {}; }

 private:
  // In blocks of rows, so that a large weight does not become one long wait for communication. A
  // row's bits do not depend on its block.
  void weight_backward(const Tensor& grad_pre, InputGradients& gradients) const {
    const GradientSlot slot = gradients.slot(weight_index);
    const std::int64_t rows = slot.tensor.shape()[0], columns = slot.tensor.shape()[1];
    const std::int64_t block = rows_per_block(columns, slot.tensor.dtype());
    const Tensor rows_of_grad = grad_pre.transpose(0, 1);
    for (std::int64_t begin = 0; begin < rows; begin += block) {
      const std::int64_t end = std::min(rows, begin + block);
      kernels_of(grad_pre).matmul(rows_of_grad.slice(0, begin, end), saved_.x,
                                  slot.tensor.slice(0, begin, end), slot.accumulate);
      if (columns > 0) gradients.finished(weight_index, end * columns);
    }
  }

  // The gradient before the activation, as rows; writes the bias's on the way.
  Tensor activation_backward(const Tensor& grad_output, InputGradients& gradients) const {
    const GradientSlot bias =
        has_bias_ && gradients.wanted(bias_index) ? gradients.slot(bias_index) : GradientSlot();
    if (activation_ == Activation::none) {
      const Tensor grad = as_rows(contiguous(grad_output));
      if (bias.tensor.defined()) kernels_of(grad).sum_to(1.0, grad, bias.tensor, bias.accumulate);
      finish_bias(bias, gradients);
      return grad;
    }
    const Tensor grad_pre = as_rows(scratch_for(grad_output));
    kernels_of(grad_pre).bias_activation_backward(activation_, saved_.pre, saved_.y,
                                                  as_rows(contiguous(grad_output)), grad_pre,
                                                  bias.tensor, bias.accumulate);
    finish_bias(bias, gradients);
    return grad_pre;
  }

  static void finish_bias(const GradientSlot& bias, InputGradients& gradients) {
    if (bias.tensor.defined() && bias.tensor.count() > 0)
      gradients.finished(bias_index, bias.tensor.count());
  }

  Activation activation_;
  bool has_bias_;
  Saved saved_;
};

void require_operands(const Tensor& x, const Tensor& weight, const Tensor* bias) {
  require_floating("linear", {"x", x});
  require_alike("linear", {"x", x}, {"weight", weight});
  if (x.rank() < 1 || weight.rank() != 2 || x.shape().back() != weight.shape()[1]) {
    throw UsageError(
        fmt::format("linear: x has shape {}, weight has shape {}; expected [..., in] and [out, in]",
                    base::to_string(x.shape()), base::to_string(weight.shape())));
  }
  if (bias == nullptr) return;
  require_alike("linear", {"x", x}, {"bias", *bias});
  if (bias->shape() != Shape{weight.shape()[0]}) {
    throw UsageError(fmt::format(
        "linear: bias has shape {}, expected {} for weight {}", base::to_string(bias->shape()),
        base::to_string(Shape{weight.shape()[0]}), base::to_string(weight.shape())));
  }
}

}  // namespace

Variable linear(const Variable& x, const Variable& weight, const Variable& bias,
                Activation activation) {
  require_operands(x.value(), weight.value(), bias.defined() ? &bias.value() : nullptr);
  const Variable all[] = {x, weight, bias};
  const std::span<const Variable> inputs(all, bias.defined() ? 3u : 2u);
  const bool recording = autograd::must_record(inputs);

  const Tensor rows = as_rows(contiguous(x.value()));
  const Shape y_shape{rows.shape()[0], weight.shape()[0]};
  const Tensor y = Tensor::empty(x.context(), y_shape, x.dtype());
  const bool keep_pre = recording && gradient_from(activation) == kernels::GradientFrom::input;
  const Tensor pre = keep_pre ? empty_like(y) : Tensor();
  const Tensor shift = bias.defined() ? contiguous(bias.value()) : Tensor();
  kernels_of(y).linear(rows, weight.value(), shift, activation, pre, y);

  Shape shape = x.shape();
  shape[shape.rank() - 1] = weight.shape()[0];
  Saved saved;
  if (weight.requires_grad()) saved.x = rows;
  if (x.requires_grad()) saved.weight = weight.value();
  if (activation != Activation::none) saved.y = y;
  saved.pre = pre;
  return autograd::record<LinearNode>(y.reshape(shape), inputs, activation, std::move(saved));
}

}  // namespace lockstep::ops

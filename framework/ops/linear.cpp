#include "framework/ops/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/kernels/product_factor.h"
#include "framework/ops/operands.h"

namespace lockstep::ops {

using autograd::GradientSlot;
using autograd::InputGradients;

namespace {

constexpr std::size_t x_index = 0, weight_index = 1, bias_index = 2;

// What the backward reads; rows are x's leading axes flattened. Both are as the product took them.
struct Saved {
  Tensor x;       // [rows, in], for the weight's gradient
  Tensor weight;  // [out, in], for the input's
};

class LinearNode final : public autograd::Node {
 public:
  LinearNode(std::span<const Variable> inputs, DType factors, Saved saved,
             kernels::ActivationRecord record)
      : Node("linear", inputs),
        has_bias_(inputs.size() > bias_index),
        factor_dtype_(factors),
        saved_(std::move(saved)),
        record_(std::move(record)) {}

  // Parameters first, announced as they are finished: their gradients can travel while the input's
  // is computed.
  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    GradientSlot bias =
        has_bias_ && gradients.wanted(bias_index) ? gradients.slot(bias_index) : GradientSlot();
    const Tensor grad_pre = gradient_before_activation(grad_output, gradients, bias);
    if (gradients.wanted(weight_index)) weight_backward(grad_pre, gradients, bias);
    saved_.x = {};
    record_ = {};
    if (gradients.wanted(x_index)) input_backward(grad_pre, gradients);
  }
  void release() override {
    saved_ = {};
    record_ = {};
  }

 private:
  // As rows, in the type of the products' factors. Writes the gradient of the bias on the way,
  // unless the product of the weight's will.
  Tensor gradient_before_activation(const Tensor& grad_output, InputGradients& gradients,
                                    GradientSlot& bias) const {
    const kernels::Kernels& kernels = kernels_of(grad_output);
    const bool is_factor = grad_output.dtype() == factor_dtype_;
    if (record_.activation == Activation::none && is_factor) {
      const Tensor grad = as_rows(contiguous(grad_output));
      if (kernels.has_gradient_epilogues(factor_dtype_) && gradients.wanted(weight_index))
        return grad;
      if (bias.tensor.defined()) kernels.sum_to(1.0, grad, bias.tensor, bias.accumulate);
      finish_bias(bias, gradients);
      return grad;
    }
    // Before anything else holds the memory of grad_output.
    const Tensor grad_pre = as_rows(
        is_factor ? scratch_for(grad_output)
                  : Tensor::empty(grad_output.context(), grad_output.shape(), factor_dtype_));
    kernels.bias_activation_backward(record_, as_rows(contiguous(grad_output)), grad_pre,
                                     bias.tensor, bias.accumulate);
    finish_bias(bias, gradients);
    return grad_pre;
  }

  static void finish_bias(GradientSlot& bias, InputGradients& gradients) {
    if (bias.tensor.defined() && bias.tensor.count() > 0)
      gradients.finished(bias_index, bias.tensor.count());
    bias = {};
  }

  // In blocks of rows, so that a large weight does not become one long wait for communication. A
  // row's bits do not depend on its block. The bias is of another shape than the weight, so that
  // they cannot be one variable, and may be written side by side.
  void weight_backward(const Tensor& grad_pre, InputGradients& gradients,
                       const GradientSlot& bias) const {
    const GradientSlot slot = gradients.slot(weight_index);
    const std::int64_t rows = slot.tensor.shape()[0], columns = slot.tensor.shape()[1];
    const std::int64_t block = rows_per_block(columns, slot.tensor.dtype());
    for (std::int64_t begin = 0; begin < rows; begin += block) {
      const std::int64_t end = std::min(rows, begin + block);
      kernels_of(grad_pre).linear_weight_gradient(
          grad_pre.slice(1, begin, end), saved_.x, slot.tensor.slice(0, begin, end),
          slot.accumulate, bias.tensor.defined() ? bias.tensor.slice(0, begin, end) : Tensor(),
          bias.accumulate);
      if (bias.tensor.defined()) gradients.finished(bias_index, end);
      if (columns > 0) gradients.finished(weight_index, end * columns);
    }
  }

  // Where a linear layer gave x to this one alone, it gets the gradient before its activation.
  void input_backward(const Tensor& grad_pre, InputGradients& gradients) const {
    auto* const below = kernels_of(grad_pre).has_gradient_epilogues(factor_dtype_)
                            ? dynamic_cast<LinearNode*>(gradients.sole_producer(x_index))
                            : nullptr;
    const GradientSlot slot = gradients.slot(x_index);
    const Tensor rows = slot.tensor.reshape(Shape{grad_pre.shape()[0], saved_.weight.shape()[1]});
    const kernels::ActivationRecord record =
        below == nullptr ? kernels::ActivationRecord() : std::exchange(below->record_, {});
    kernels_of(grad_pre).linear_input_gradient(grad_pre, saved_.weight, record, rows,
                                               slot.accumulate);
  }

  bool has_bias_;
  DType factor_dtype_;
  Saved saved_;
  // Activation::none once the layer above has applied it.
  kernels::ActivationRecord record_;
};

// As products read it.
Tensor factor(const Variable& weight) {
  const Tensor& value = weight.value();
  return weight.working_copy().defined() ? weight.working_copy() : kernels::product_factor(value);
}

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

  const Tensor rows = kernels::product_factor(as_rows(contiguous(x.value()))), w = factor(weight);
  const Tensor y = Tensor::empty(x.context(), Shape{rows.shape()[0], weight.shape()[0]}, x.dtype());
  const Tensor shift = bias.defined() ? contiguous(bias.value()) : Tensor();
  kernels::ActivationRecord record = kernels_of(y).linear(rows, w, shift, activation, recording, y);

  Shape shape = x.shape();
  shape[shape.rank() - 1] = weight.shape()[0];
  Saved saved;
  if (weight.requires_grad()) saved.x = rows;
  if (x.requires_grad()) saved.weight = w;
  return autograd::record<LinearNode>(y.reshape(shape), inputs, rows.dtype(), std::move(saved),
                                      std::move(record));
}

}  // namespace lockstep::ops

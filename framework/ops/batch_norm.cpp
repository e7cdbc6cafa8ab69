#include "framework/ops/batch_norm.h"

#include <fmt/format.h>

#include "framework/ops/operands.h"

namespace lockstep::ops {

using autograd::GradientSlot;
using autograd::InputGradients;

namespace {

constexpr std::size_t x_index = 0, weight_index = 1, bias_index = 2;

struct Saved {
  Tensor x;  // [rows, features]
  Tensor weight;
  Tensor mean, inverse_deviation;  // what x was normalised by
};

class BatchNormNode final : public autograd::Node {
 public:
  BatchNormNode(std::span<const Variable> inputs, bool of_batch, Saved saved)
      : Node("batch_norm", inputs), of_batch_(of_batch), saved_(std::move(saved)) {}

  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    const Tensor grad_y = contiguous(grad_output);
    const bool wants_x = gradients.wanted(x_index);
    Tensor grad_weight, grad_bias;
    if (gradients.wanted(weight_index) || gradients.wanted(bias_index) || (wants_x && of_batch_)) {
      grad_weight = empty_like(saved_.weight);
      grad_bias = empty_like(saved_.weight);
      kernels_of(grad_y).batch_norm_parameter_gradients(
          saved_.x, saved_.mean, saved_.inverse_deviation, grad_y, grad_weight, grad_bias);
    }
    if (gradients.wanted(weight_index)) sum_into(gradients.slot(weight_index), 1.0, grad_weight);
    if (gradients.wanted(bias_index)) sum_into(gradients.slot(bias_index), 1.0, grad_bias);
    if (wants_x) {
      const GradientSlot slot = gradients.slot(x_index);
      kernels_of(grad_y).batch_norm_input_gradient(
          saved_.x, saved_.weight, saved_.mean, saved_.inverse_deviation, grad_y,
          of_batch_ ? grad_weight : Tensor(), of_batch_ ? grad_bias : Tensor(), slot.tensor,
          slot.accumulate);
    }
  }
  void release() override { saved_ = {}; }

 private:
  bool of_batch_;  // mean and deviation are functions of x
  Saved saved_;
};

void require_operands(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& running_mean, const Tensor& running_variance) {
  require_floating("batch_norm", {"x", x});
  if (x.rank() != 2)
    throw UsageError(fmt::format("batch_norm: x has shape {}, expected [rows, features]",
                                 base::to_string(x.shape())));
  const Shape features{x.shape()[1]};
  for (const Operand& operand :
       {Operand{"weight", weight}, Operand{"bias", bias}, Operand{"running_mean", running_mean},
        Operand{"running_variance", running_variance}}) {
    require_alike("batch_norm", {"x", x}, operand);
    if (operand.tensor.shape() != features)
      throw UsageError(fmt::format("batch_norm: {} has shape {}, expected {} for x {}",
                                   operand.name, base::to_string(operand.tensor.shape()),
                                   base::to_string(features), base::to_string(x.shape())));
  }
}

}  // namespace

Variable batch_norm(const Variable& x, const Variable& weight, const Variable& bias,
                    const Tensor& running_mean, const Tensor& running_variance,
                    const BatchNormOptions& options, std::string_view name) {
  require_operands(x.value(), weight.value(), bias.value(), running_mean, running_variance);
  const std::int64_t count = x.shape()[0];
  if (options.training && count == 1)
    throw UsageError(fmt::format(
        "batch_norm '{}': found a batch of 1 row in training, expected at least 2: the deviation "
        "of one row is not defined. Every worker's share of every batch (train.batch_size, "
        "train.accumulate, the last batch of an epoch) needs 2 rows or none",
        name));
  const Tensor rows = contiguous(x.value());
  const Tensor scale = contiguous(weight.value()), shift = contiguous(bias.value());
  const Tensor y = empty_like(rows), inverse_deviation = empty_like(scale);
  const bool of_batch = options.training && count > 0;
  const Tensor mean = of_batch ? empty_like(scale) : running_mean;
  if (of_batch)
    kernels_of(y).batch_norm(rows, scale, shift, options.epsilon, options.momentum, running_mean,
                             running_variance, mean, inverse_deviation, y);
  else
    kernels_of(y).batch_norm_inference(rows, scale, shift, options.epsilon, running_mean,
                                       running_variance, inverse_deviation, y);
  const Variable inputs[] = {x, weight, bias};
  return autograd::record<BatchNormNode>(y, inputs, of_batch,
                                         Saved{rows, scale, mean, inverse_deviation});
}

}  // namespace lockstep::ops

#include "framework/ops/mse.h"

#include <fmt/format.h>

#include "framework/ops/operands.h"

namespace lockstep::ops {

namespace {

class SquaredErrorNode final : public autograd::Node {
 public:
  SquaredErrorNode(std::span<const Variable> inputs, Tensor difference, double scale)
      : Node("squared_error", inputs), difference_(std::move(difference)), scale_(scale) {}

  void backward(const Tensor& grad_output, autograd::InputGradients& gradients) override {
    kernels_of(grad_output)
        .multiply_sum_to(2.0 * scale_, difference_, grad_output, difference_, false);
    gradients.give(0, difference_);
  }
  void release() override { difference_ = {}; }

 private:
  Tensor difference_;
  double scale_;
};

}  // namespace

Variable squared_error(const Variable& prediction, const Tensor& target, double scale) {
  const Operand x{"prediction", prediction.value()}, y{"target", target};
  require_floating("squared_error", x);
  require_alike("squared_error", x, y);
  require_same_shape("squared_error", x, y);
  const Tensor difference = empty_like(prediction.value());
  const kernels::Kernels& kernels = kernels_of(difference);
  kernels.binary(kernels::Binary::subtract, prediction.value(), target, difference);
  const Tensor value = Tensor::empty(difference.context(), Shape{}, difference.dtype());
  kernels.multiply_sum_to(scale, difference, difference, value, false);
  return autograd::record<SquaredErrorNode>(value, {&prediction, 1}, difference, scale);
}

Variable mse(const Variable& prediction, const Tensor& target) {
  if (prediction.value().count() == 0) {
    throw UsageError(fmt::format("mse: prediction of shape {} has no elements to average",
                                 base::to_string(prediction.shape())));
  }
  return squared_error(prediction, target, 1.0 / static_cast<double>(prediction.value().count()));
}

}  // namespace lockstep::ops

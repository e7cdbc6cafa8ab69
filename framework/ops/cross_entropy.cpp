#include "framework/ops/cross_entropy.h"

#include <fmt/format.h>

#include "framework/ops/operands.h"

namespace lockstep::ops {

namespace {

class CrossEntropyNode final : public autograd::Node {
 public:
  CrossEntropyNode(std::span<const Variable> inputs, Tensor grad_of_sum, double scale)
      : Node("cross_entropy", inputs), grad_of_sum_(std::move(grad_of_sum)), scale_(scale) {}

  // The forward made the gradient of the sum; here it is scaled in place and handed on.
  void backward(const Tensor& grad_output, autograd::InputGradients& gradients) override {
    kernels_of(grad_output).multiply_sum_to(scale_, grad_of_sum_, grad_output, grad_of_sum_, false);
    gradients.give(0, grad_of_sum_);
  }
  void release() override { grad_of_sum_ = {}; }

 private:
  Tensor grad_of_sum_;
  double scale_;
};

void require_operands(const Tensor& logits, const Tensor& targets, double label_smoothing) {
  require_floating("cross_entropy", {"logits", logits});
  if (logits.rank() != 2 || logits.shape()[1] < 1) {
    throw UsageError(fmt::format("cross_entropy: logits have shape {}, expected [rows, classes]",
                                 base::to_string(logits.shape())));
  }
  if (!targets.defined() || targets.dtype() != DType::int64 ||
      targets.shape() != Shape{logits.shape()[0]}) {
    throw UsageError(fmt::format(
        "cross_entropy: targets are {}, expected int64 {} for logits {}",
        targets.defined()
            ? fmt::format("{} {}", base::name_of(targets.dtype()), base::to_string(targets.shape()))
            : "undefined",
        base::to_string(Shape{logits.shape()[0]}), base::to_string(logits.shape())));
  }
  if (!(label_smoothing >= 0.0 && label_smoothing < 1.0)) {
    throw UsageError(
        fmt::format("cross_entropy: label_smoothing is {}, expected [0, 1)", label_smoothing));
  }
}

}  // namespace

CrossEntropy cross_entropy(const Variable& logits, const Tensor& targets, double scale,
                           const CrossEntropyOptions& options, const Tensor& total) {
  require_operands(logits.value(), targets, options.label_smoothing);
  const Tensor x = contiguous(logits.value());
  const Tensor grad = autograd::must_record({&logits, 1}) ? empty_like(x) : Tensor();
  const kernels::CrossEntropyResult result{
      .total = total.defined() ? total : Tensor::empty(x.context(), {2}, DType::float64),
      .accumulate = total.defined(),
      .loss = Tensor::empty(x.context(), Shape{}, x.dtype()),
      .scale = scale,
      .grad = grad};
  kernels_of(x).cross_entropy(x, contiguous(targets), options, result);
  return {autograd::record<CrossEntropyNode>(result.loss, {&logits, 1}, grad, scale), result.total};
}

}  // namespace lockstep::ops

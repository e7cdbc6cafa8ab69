#include "framework/ops/dropout.h"

#include <fmt/format.h>

#include "framework/ops/operands.h"

namespace lockstep::ops {

namespace {

struct Mask {
  double p;
  base::RandomStream stream;
  std::int64_t first_row;

  void apply(const Tensor& x, const Tensor& y, bool accumulate) const {
    kernels_of(x).dropout(x, p, stream, first_row, y, accumulate);
  }
};

// Draws the same mask again instead of keeping it.
class DropoutNode final : public autograd::Node {
 public:
  DropoutNode(std::span<const Variable> inputs, const Mask& mask)
      : Node("dropout", inputs), mask_(mask) {}

  void backward(const Tensor& grad_output, autograd::InputGradients& gradients) override {
    const autograd::GradientSlot slot = gradients.slot(0);
    mask_.apply(contiguous(grad_output), slot.tensor, slot.accumulate);
  }
  void release() override {}

 private:
  Mask mask_;
};

}  // namespace

Variable dropout(const Variable& x, double p, std::string_view name) {
  require_floating("dropout", {"x", x.value()});
  if (!(p >= 0.0 && p < 1.0)) {
    throw UsageError(fmt::format("dropout '{}': p is {}, expected [0, 1)", name, p));
  }
  if (x.value().rank() == 0) {
    throw UsageError(
        fmt::format("dropout '{}': x is a scalar, expected rows along the first axis", name));
  }
  if (p == 0.0) return x;
  const base::RandomState& random = x.context().random();
  const Mask mask{p, base::RandomStream(random.seed, fmt::format("dropout:{}", name), random.step),
                  random.first_row};
  const Tensor y = empty_like(x.value());
  mask.apply(contiguous(x.value()), y, false);
  return autograd::record<DropoutNode>(y, {&x, 1}, mask);
}

}  // namespace lockstep::ops

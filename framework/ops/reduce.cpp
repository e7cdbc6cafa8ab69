#include "framework/ops/reduce.h"

#include <fmt/format.h>

#include <array>

#include "framework/ops/operands.h"

namespace lockstep::ops {

namespace {

// alpha * the sum over the axes in which `kept` has extent 1 and x has not.
class ReduceNode final : public autograd::Node {
 public:
  ReduceNode(std::span<const Variable> inputs, std::string_view op, double alpha, const Shape& kept)
      : Node(op, inputs), alpha_(alpha), shape_(inputs[0].shape()), kept_(kept) {}

  // Every element of a reduced axis gets the same gradient: a view with stride 0.
  void backward(const Tensor& grad_output, autograd::InputGradients& gradients) override {
    Tensor gradient = contiguous(grad_output);
    if (alpha_ != 1.0) {
      const Tensor scaled = empty_like(gradient);
      kernels_of(scaled).axpby(alpha_, gradient, 0.0, scaled);
      gradient = scaled;
    }
    gradients.give(0, gradient.reshape(kept_).expand(shape_));
  }
  void release() override {}

 private:
  double alpha_;
  Shape shape_;
  Shape kept_;
};

using AxisSet = std::array<bool, Shape::max_rank>;

AxisSet reduced_axes(std::string_view op, const Tensor& x, std::span<const int> axes) {
  AxisSet reduced{};
  if (axes.empty()) reduced.fill(true);
  for (const int axis : axes) {
    bool& chosen = reduced[static_cast<std::size_t>(checked_axis(op, {"x", x}, axis))];
    if (chosen) throw UsageError(fmt::format("{}: axis {} is listed twice", op, axis));
    chosen = true;
  }
  return reduced;
}

// Shape of the result; reduced axes have extent 1, or are dropped.
Shape reduced_shape(const Shape& shape, const AxisSet& reduced, bool keep_axes) {
  std::array<std::int64_t, Shape::max_rank> extents{};
  std::size_t rank = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool is_reduced = reduced[static_cast<std::size_t>(axis)];
    if (!is_reduced || keep_axes) extents[rank++] = is_reduced ? 1 : shape[axis];
  }
  return Shape(std::span<const std::int64_t>(extents.data(), rank));
}

Variable reduce(std::string_view op, double alpha, const Variable& x, const AxisSet& reduced,
                bool keep_axes) {
  const Shape kept = reduced_shape(x.shape(), reduced, true);
  const Tensor out = Tensor::empty(x.context(), kept, x.dtype());
  kernels_of(out).sum_to(alpha, x.value(), out, false);
  return autograd::record<ReduceNode>(out.reshape(reduced_shape(x.shape(), reduced, keep_axes)),
                                      {&x, 1}, op, alpha, kept);
}

}  // namespace

Variable sum(const Variable& x, std::span<const int> axes, bool keep_axes) {
  require_floating("sum", {"x", x.value()});
  return reduce("sum", 1.0, x, reduced_axes("sum", x.value(), axes), keep_axes);
}

Variable mean(const Variable& x, std::span<const int> axes, bool keep_axes) {
  require_floating("mean", {"x", x.value()});
  const AxisSet reduced = reduced_axes("mean", x.value(), axes);
  std::int64_t count = 1;
  for (int axis = 0; axis < x.value().rank(); ++axis) {
    if (reduced[static_cast<std::size_t>(axis)]) count *= x.shape()[axis];
  }
  if (count == 0) {
    throw UsageError(
        fmt::format("mean: x of shape {} has no elements to average", base::to_string(x.shape())));
  }
  return reduce("mean", 1.0 / static_cast<double>(count), x, reduced, keep_axes);
}

}  // namespace lockstep::ops

#include "framework/ops/view.h"

#include <fmt/format.h>

#include "framework/ops/operands.h"

namespace lockstep::ops {

using autograd::GradientSlot;
using autograd::InputGradients;
using autograd::Node;

namespace {

class ReshapeNode final : public Node {
 public:
  explicit ReshapeNode(std::span<const Variable> inputs)
      : Node("reshape", inputs), shape_(inputs[0].shape()) {}

  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    gradients.give(0, contiguous(grad_output).reshape(shape_));
  }
  void release() override {}

 private:
  Shape shape_;
};

class TransposeNode final : public Node {
 public:
  TransposeNode(std::span<const Variable> inputs, int axis_a, int axis_b)
      : Node("transpose", inputs), axis_a_(axis_a), axis_b_(axis_b) {}

  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    gradients.give(0, grad_output.transpose(axis_a_, axis_b_));
  }
  void release() override {}

 private:
  int axis_a_;
  int axis_b_;
};

class SliceNode final : public Node {
 public:
  SliceNode(std::span<const Variable> inputs, int axis, std::int64_t begin, std::int64_t end)
      : Node("slice", inputs), axis_(axis), begin_(begin), end_(end) {}

  // What was not taken has no influence: zero.
  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    const GradientSlot slot = gradients.slot(0);
    if (!slot.accumulate) {
      clear(slot.tensor, 0, begin_);
      clear(slot.tensor, end_, slot.tensor.shape()[axis_]);
    }
    sum_into({slot.tensor.slice(axis_, begin_, end_), slot.accumulate}, 1.0, grad_output);
  }
  void release() override {}

 private:
  void clear(const Tensor& tensor, std::int64_t begin, std::int64_t end) const {
    if (begin < end) kernels_of(tensor).fill(0.0, tensor.slice(axis_, begin, end));
  }

  int axis_;
  std::int64_t begin_;
  std::int64_t end_;
};

class ConcatNode final : public Node {
 public:
  ConcatNode(std::span<const Variable> inputs, int axis) : Node("concat", inputs), axis_(axis) {
    extents_.reserve(inputs.size());
    for (const Variable& part : inputs) extents_.push_back(part.shape()[axis]);
  }

  void backward(const Tensor& grad_output, InputGradients& gradients) override {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      const std::int64_t end = begin + extents_[i];
      if (gradients.wanted(i)) gradients.give(i, grad_output.slice(axis_, begin, end));
      begin = end;
    }
  }
  void release() override {}

 private:
  int axis_;
  std::vector<std::int64_t> extents_;
};

// Puts a number in place of the -1.
Shape completed(const Shape& from, std::vector<std::int64_t> extents) {
  const auto fail = [&] {
    return UsageError(fmt::format("reshape: x of shape {} does not fit [{}]", base::to_string(from),
                                  fmt::join(extents, ", ")));
  };
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::int64_t& extent : extents) {
    if (extent < -1 || (extent == -1 && open != nullptr)) throw fail();
    if (extent == -1) {
      open = &extent;
    } else {
      known *= extent;
    }
  }
  if (open != nullptr) {
    if (known == 0 || from.count() % known != 0) throw fail();
    *open = from.count() / known;
  } else if (known != from.count()) {
    throw fail();
  }
  return Shape(std::span<const std::int64_t>(extents));
}

Shape concatenated_shape(const std::vector<Variable>& parts, int axis) {
  Shape shape = parts.front().shape();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    require_alike("concat", {"part 0", parts[0].value()},
                  {fmt::format("part {}", i), parts[i].value()});
    Shape expected = parts[i].shape();
    const bool same_rank = expected.rank() == shape.rank();
    if (same_rank) expected[axis] = shape[axis];
    if (!same_rank || expected != shape) {
      throw UsageError(fmt::format(
          "concat: part {} has shape {}, part 0 has shape {}; expected the "
          "same but for axis {}",
          i, base::to_string(parts[i].shape()), base::to_string(parts.front().shape()), axis));
    }
    shape[axis] += parts[i].shape()[axis];
  }
  return shape;
}

}  // namespace

Variable reshape(const Variable& x, std::vector<std::int64_t> extents) {
  const Shape shape = completed(x.shape(), std::move(extents));
  return autograd::record<ReshapeNode>(contiguous(x.value()).reshape(shape), {&x, 1});
}

Variable transpose(const Variable& x, int axis_a, int axis_b) {
  axis_a = checked_axis("transpose", {"x", x.value()}, axis_a);
  axis_b = checked_axis("transpose", {"x", x.value()}, axis_b);
  return autograd::record<TransposeNode>(x.value().transpose(axis_a, axis_b), {&x, 1}, axis_a,
                                         axis_b);
}

Variable slice(const Variable& x, int axis, std::int64_t begin, std::int64_t end) {
  axis = checked_axis("slice", {"x", x.value()}, axis);
  if (begin < 0 || begin > end || end > x.shape()[axis]) {
    throw UsageError(fmt::format("slice: [{}, {}) along axis {} of x of shape {}", begin, end, axis,
                                 base::to_string(x.shape())));
  }
  return autograd::record<SliceNode>(x.value().slice(axis, begin, end), {&x, 1}, axis, begin, end);
}

Variable concat(const std::vector<Variable>& parts, int axis) {
  if (parts.empty()) throw UsageError("concat: no parts");
  axis = checked_axis("concat", {"part 0", parts.front().value()}, axis);
  const Variable& first = parts.front();
  const Tensor out = Tensor::empty(first.context(), concatenated_shape(parts, axis), first.dtype());
  std::int64_t begin = 0;
  for (const Variable& part : parts) {
    const std::int64_t end = begin + part.shape()[axis];
    kernels_of(out).copy(part.value(), out.slice(axis, begin, end));
    begin = end;
  }
  return autograd::record<ConcatNode>(out, parts, axis);
}

}  // namespace lockstep::ops

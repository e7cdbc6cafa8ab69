#include "framework/kernels/product_shapes.h"

#include "framework/kernels/dispatch.h"

namespace lockstep::kernels {
namespace {

Shape leading_axes(const Shape& shape) {
  return Shape(shape.extents().first(static_cast<std::size_t>(shape.rank() - 2)));
}

Axes batch_axes(const Tensor& a, const Tensor& b, const Tensor& c) {
  const int leading = c.rank() - 2;
  const Tensor* const operands[] = {&c, &a, &b};
  Axes axes;
  for (int i = 0; i < leading; ++i) {
    Axis axis{c.shape()[i], {}};
    for (std::size_t operand = 0; operand < 3; ++operand) {
      const Tensor& t = *operands[operand];
      const int own = i - leading + t.rank() - 2;
      if (own >= 0 && t.shape()[own] != 1) {
        axis.stride[operand] = t.strides()[static_cast<std::size_t>(own)];
      }
    }
    axes.add(axis);
  }
  axes.merge();
  return axes;
}

}  // namespace

Axes matmul_batch(const Tensor& a, const Tensor& b, const Tensor& c) {
  require_rank("matmul", "a", a, 2);
  require_rank("matmul", "b", b, 2);
  require_rank("matmul", "c", c, 2);
  const int rank = c.rank();
  const std::int64_t m = a.shape()[a.rank() - 2], k = a.shape().back(), n = b.shape().back();
  const Shape batch = base::broadcast(leading_axes(a.shape()), leading_axes(b.shape()));
  if (b.shape()[b.rank() - 2] != k || c.shape()[rank - 2] != m || c.shape().back() != n ||
      leading_axes(c.shape()) != batch) {
    throw UsageError(fmt::format("matmul: {} times {} into {}", base::to_string(a.shape()),
                                 base::to_string(b.shape()), base::to_string(c.shape())));
  }
  return batch_axes(a, b, c);
}

void require_factors(std::string_view kernel, const Tensor& a, const Tensor& b,
                     const Tensor& result) {
  visit_float(kernel, result.dtype(), [](auto) {});
  const bool rounded = a.dtype() == DType::bfloat16 && result.dtype() == DType::float32;
  if (a.dtype() == b.dtype() && (a.dtype() == result.dtype() || rounded)) return;
  throw UsageError(fmt::format(
      "{}: factors of {} and {} with a result of {}, expected all alike, "
      "or bfloat16 factors of a float32 result",
      kernel, base::name_of(a.dtype()), base::name_of(b.dtype()), base::name_of(result.dtype())));
}

LinearShape linear_shape(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
  require_rank("linear", "x", x, 2);
  require_rank("linear", "w", w, 2);
  const std::int64_t m = x.shape()[0], k = x.shape()[1], n = w.shape()[0];
  require_shape("linear", "x", x, {m, k});
  require_shape("linear", "w", w, {n, k});
  require_shape("linear", "y", y, {m, n});
  require_contiguous("linear", "y", y);
  if (bias.defined()) {
    require_shape("linear", "bias", bias, {n});
    require_contiguous("linear", "bias", bias);
  }
  return {m, n, k};
}

ActivationRecord make_record(Activation activation, const Tensor& y) {
  if (activation == Activation::none) return {};
  ActivationRecord record{.activation = activation, .y = y};
  if (gradient_from(activation) == GradientFrom::input)
    record.pre = Tensor::empty(y.context(), y.shape(), y.dtype());
  return record;
}

Tensor require_bias_activation_backward(const ActivationRecord& record, const Tensor& grad_y,
                                        const Tensor& grad_pre, const Tensor& grad_bias) {
  require_rank("bias_activation_backward", "grad_y", grad_y, 2);
  const std::int64_t m = grad_y.shape()[0], n = grad_y.shape()[1];
  require_shape("bias_activation_backward", "grad_y", grad_y, {m, n});
  require_shape("bias_activation_backward", "grad_pre", grad_pre, {m, n});
  require_contiguous("bias_activation_backward", "grad_pre", grad_pre);
  if (grad_bias.defined()) {
    require_shape("bias_activation_backward", "grad_bias", grad_bias, {n});
    require_contiguous("bias_activation_backward", "grad_bias", grad_bias);
  }
  const GradientFrom from = gradient_from(record.activation);
  const Tensor& saved = from == GradientFrom::input    ? record.pre
                        : from == GradientFrom::output ? record.y
                                                       : grad_y;
  require_shape("bias_activation_backward", "the saved value", saved, {m, n});
  return saved;
}

}  // namespace lockstep::kernels

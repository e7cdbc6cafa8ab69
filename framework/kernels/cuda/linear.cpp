// The linear layer: the product by cuBLAS with bias and ReLU applied before it is stored, other
// activations in one pass after it, and the same pass backwards.
#include "framework/base/division.h"
#include "framework/kernels/cuda/activation.h"
#include "framework/kernels/cuda/cublas.h"
#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/product_shapes.h"

namespace lockstep::kernels::cuda {
namespace {

// y^T = w x^T as cuBLAS, which counts columns first, sees contiguous x, w and y.
BlasProduct transposed_product(const LinearShape& shape, const Tensor& x, const Tensor& w,
                               const Tensor& y) {
  return {.m = shape.n,
          .n = shape.m,
          .k = shape.k,
          .a = {w.data(), shape.k, true},
          .b = {x.data(), shape.k},
          .c = {y.data(), shape.n}};
}

// Whether cublasLt did all of it.
bool fused_linear(const LinearShape& shape, const Tensor& x, const Tensor& w, const Tensor& bias,
                  Activation activation, const Tensor& pre, const Tensor& y) {
  const bool has_epilogue = activation == Activation::none || activation == Activation::relu;
  if (!bias.defined() || pre.defined() || !has_epilogue || y.dtype() != DType::float32) {
    return false;
  }
  return Cublas::of(y.context())
      .multiply(transposed_product(shape, x, w, y),
                activation == Activation::relu ? Epilogue::bias_relu : Epilogue::bias,
                bias.data<float>());
}

}  // namespace

void CudaKernels::linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                         Activation activation, const Tensor& pre, const Tensor& y) const {
  const LinearShape shape = linear_shape(x, w, bias, pre, y);
  if (y.count() == 0) return;
  visit_float("linear", y.dtype(), [&]<class T>(base::TypeTag<T>) {
    const Tensor& product = pre.defined() ? pre : y;
    T* const before = pre.defined() ? pre.data<T>() : nullptr;
    const T* const shift = bias.defined() ? bias.data<T>() : nullptr;
    T* const to = y.data<T>();
    x.data<T>();  // throws where it is of another type
    w.data<T>();
    if (shape.k == 0) {
      fill(0, product);
    } else {
      const Tensor rows = contiguous_on_device(x), weight = contiguous_on_device(w);
      if (fused_linear(shape, rows, weight, bias, activation, pre, y)) return;
      Cublas::of(y.context()).multiply(transposed_product(shape, rows, weight, product), y.dtype());
    }
    if (shift == nullptr && before == nullptr && activation == Activation::none) return;
    launch_bias_activation<T>(stream_of(y), shape.m, shape.n, activation, shift, product.data<T>(),
                              before, to);
  });
}

void CudaKernels::bias_activation_backward(Activation activation, const Tensor& pre,
                                           const Tensor& y, const Tensor& grad_y,
                                           const Tensor& grad_pre, const Tensor& grad_bias,
                                           bool accumulate_bias) const {
  const GradientFrom from = gradient_from(activation);
  const Tensor& saved = from == GradientFrom::input    ? pre
                        : from == GradientFrom::output ? y
                                                       : grad_y;
  require_bias_activation_backward(saved, grad_y, grad_pre, grad_bias);
  const std::int64_t rows = grad_y.shape()[0], columns = grad_y.shape()[1];
  if (columns == 0) return;
  SumPlan plan;
  plan.columns = true;
  plan.across = columns;
  plan.across_stride[0] = 1;
  plan.summed.count = rows;
  plan.part_length = rows_of_a_part;
  plan.parts = std::max<std::int64_t>(1, base::ceil_div(rows, rows_of_a_part));
  const Tensor saved_rows = contiguous_on_device(saved), grad_rows = contiguous_on_device(grad_y);
  const Tensor parts =
      plan.parts == 1 ? Tensor{}
                      : Tensor::empty(grad_y.context(), {plan.parts * columns}, DType::float64);
  visit_float("bias_activation_backward", grad_pre.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_bias_activation_backward<T>(
        stream_of(grad_pre), plan, activation, saved_rows.data<T>(), grad_rows.data<T>(),
        grad_pre.data<T>(), grad_bias.defined() ? grad_bias.data<T>() : nullptr, accumulate_bias,
        parts.defined() ? parts.data<double>() : nullptr);
  });
}

}  // namespace lockstep::kernels::cuda

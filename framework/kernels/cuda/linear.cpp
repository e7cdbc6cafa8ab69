// The linear layer: products by cuBLAS with what surrounds them in their epilogues where cublasLt
// has one, in one pass of its own kernels otherwise.
#include <optional>

#include "framework/base/division.h"
#include "framework/kernels/cuda/activation.h"
#include "framework/kernels/cuda/cublas.h"
#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/product_shapes.h"

namespace lockstep::kernels::cuda {
namespace {

// What cublasLt wants the rows of relu's mask, in bits, and of gelu's input to be multiples of.
constexpr std::int64_t mask_row_unit = 128, input_row_unit = 8;

std::int64_t mask_row(std::int64_t columns) {
  return base::ceil_div(columns, mask_row_unit) * mask_row_unit;
}

// y^T = w x^T as cuBLAS, which counts columns first, sees contiguous x, w and y.
BlasProduct transposed_product(const LinearShape& shape, const Tensor& x, const Tensor& w,
                               const Tensor& y) {
  return {.m = shape.n,
          .n = shape.m,
          .k = shape.k,
          .a = {w.data(), shape.k, true},
          .b = {x.data(), shape.k},
          .c = {y.data(), shape.n},
          .factors = x.dtype(),
          .result = y.dtype()};
}

// What a product applies of the layer before it is stored, and what it keeps for the gradient.
// cublasLt's gelu is that with tanh.
std::optional<Epilogue> epilogue_of(const Tensor& bias, Activation activation,
                                    const ActivationRecord& record, const Tensor& y) {
  if (y.dtype() != DType::float32) return std::nullopt;
  Epilogue epilogue{CUBLASLT_EPILOGUE_DEFAULT};
  unsigned kind = bias.defined() ? CUBLASLT_EPILOGUE_BIAS : 0;
  if (activation == Activation::relu) {
    kind |= record.mask.defined() ? CUBLASLT_EPILOGUE_RELU_AUX : CUBLASLT_EPILOGUE_RELU;
    if (record.mask.defined()) {
      epilogue.saved = record.mask.data();
      epilogue.leading = mask_row(y.shape()[1]);
    }
  } else if (activation == Activation::gelu_tanh) {
    if (record.pre.defined() && y.shape()[1] % input_row_unit != 0) return std::nullopt;
    kind |= record.pre.defined() ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_GELU;
    if (record.pre.defined()) {
      epilogue.saved = record.pre.data();
      epilogue.leading = y.shape()[1];
    }
  } else if (activation != Activation::none) {
    return std::nullopt;
  }
  if (kind == 0) return std::nullopt;
  epilogue.kind = static_cast<cublasLtEpilogue_t>(kind);
  if (bias.defined()) epilogue.bias = bias.data<float>();
  return epilogue;
}

// The same backwards: of the layer whose result is multiplied by w.
std::optional<Epilogue> gradient_epilogue_of(const ActivationRecord& below) {
  if (below.mask.defined())
    return Epilogue{.kind = CUBLASLT_EPILOGUE_DRELU,
                    .saved = below.mask.data(),
                    .leading = 8 * below.mask.shape()[1]};
  const bool takes_input = below.activation == Activation::gelu_tanh &&
                           below.pre.dtype() == DType::float32 &&
                           below.pre.shape()[1] % input_row_unit == 0;
  if (!takes_input) return std::nullopt;
  return Epilogue{
      .kind = CUBLASLT_EPILOGUE_DGELU, .saved = below.pre.data(), .leading = below.pre.shape()[1]};
}

bool has_dense_rows(const Tensor& t) {
  return t.strides()[1] == 1 && t.strides()[0] >= t.shape()[1];
}

}  // namespace

ActivationRecord CudaKernels::linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                                     Activation activation, bool keep, const Tensor& y) const {
  const LinearShape shape = linear_shape(x, w, bias, y);
  require_factors("linear", x, w, y);
  ActivationRecord record = keep ? make_record(activation, y) : ActivationRecord();
  if (y.count() == 0) return record;
  const Tensor& product = record.pre.defined() ? record.pre : y;
  if (shape.k == 0) {
    fill(0, product);
  } else {
    const Tensor rows = contiguous_on_device(x), weight = contiguous_on_device(w);
    if (keep && activation == Activation::relu && has_gradient_epilogues(x.dtype()))
      record.mask = Tensor::empty(y.context(), {shape.m, mask_row(shape.n) / 8}, DType::uint8);
    const auto epilogue = epilogue_of(bias, activation, record, y);
    Cublas& cublas = Cublas::of(y.context());
    if (epilogue && cublas.multiply(transposed_product(shape, rows, weight, y), *epilogue))
      return record;
    record.mask = {};
    cublas.multiply(transposed_product(shape, rows, weight, product));
  }
  if (!bias.defined() && activation == Activation::none) return record;
  visit_float("linear", y.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_bias_activation<T>(stream_of(y), shape.m, shape.n, activation,
                              bias.defined() ? bias.data<T>() : nullptr, product.data<T>(),
                              record.pre.defined() ? record.pre.data<T>() : nullptr, y.data<T>());
  });
  return record;
}

void CudaKernels::bias_activation_backward(const ActivationRecord& record, const Tensor& grad_y,
                                           const Tensor& grad_pre, const Tensor& grad_bias,
                                           bool accumulate_bias) const {
  const Tensor saved = require_bias_activation_backward(record, grad_y, grad_pre, grad_bias);
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
  const auto launch = [&]<class T, class Pre>(Pre* to, base::TypeTag<T>) {
    launch_bias_activation_backward(
        stream_of(grad_pre), plan, record.activation, saved_rows.data<T>(), grad_rows.data<T>(), to,
        grad_bias.defined() ? grad_bias.data<T>() : nullptr, accumulate_bias,
        parts.defined() ? parts.data<double>() : nullptr);
  };
  if (grad_pre.dtype() == DType::bfloat16)
    return launch(grad_pre.data<bfloat16>(), base::TypeTag<float>{});
  visit_float("bias_activation_backward", grad_pre.dtype(),
              [&]<class T>(base::TypeTag<T> tag) { launch(grad_pre.data<T>(), tag); });
}

void CudaKernels::linear_weight_gradient(const Tensor& grad_pre, const Tensor& x,
                                         const Tensor& grad_w, bool accumulate,
                                         const Tensor& grad_bias, bool accumulate_bias) const {
  const auto whole = [&] {
    Kernels::linear_weight_gradient(grad_pre, x, grad_w, accumulate, grad_bias, accumulate_bias);
  };
  matmul_batch(grad_pre.transpose(0, 1), x, grad_w);  // throws where they do not fit
  require_factors("linear_weight_gradient", grad_pre, x, grad_w);
  if (grad_bias.defined())
    require_operand("linear_weight_gradient", "grad_bias", grad_bias, {grad_w.shape()[0]},
                    grad_w.dtype());
  const bool dense = has_dense_rows(grad_pre) && x.is_contiguous() && grad_w.is_contiguous();
  if (!grad_bias.defined() || !has_gradient_epilogues(x.dtype()) || !dense || grad_w.count() == 0 ||
      x.count() == 0)
    return whole();
  const std::int64_t out = grad_w.shape()[0], in = grad_w.shape()[1], rows = x.shape()[0];
  // The epilogue cannot add to what is there.
  const Tensor sums = accumulate_bias
                          ? Tensor::empty(grad_bias.context(), grad_bias.shape(), DType::float32)
                          : grad_bias;
  const BlasProduct product{.m = in,
                            .n = out,
                            .k = rows,
                            .a = {x.data(), in},
                            .b = {grad_pre.data(), grad_pre.strides()[0], true},
                            .c = {grad_w.data(), in},
                            .beta = accumulate ? 1.0 : 0.0,
                            .factors = x.dtype(),
                            .result = grad_w.dtype()};
  if (!Cublas::of(x.context())
           .multiply(product, {.kind = CUBLASLT_EPILOGUE_BGRADB, .bias = sums.data<float>()}))
    return whole();
  if (accumulate_bias) axpby(1, sums, 1, grad_bias);
}

void CudaKernels::linear_input_gradient(const Tensor& grad_pre, const Tensor& w,
                                        const ActivationRecord& below, const Tensor& grad_x,
                                        bool accumulate) const {
  matmul_batch(grad_pre, w, grad_x);  // throws where they do not fit
  require_factors("linear_input_gradient", grad_pre, w, grad_x);
  if (below.pre.defined())
    require_operand("linear_input_gradient", "pre", below.pre, grad_x.shape(), grad_x.dtype());
  if (below.mask.defined())
    require_operand("linear_input_gradient", "mask", below.mask,
                    {grad_x.shape()[0], mask_row(grad_x.shape()[1]) / 8}, DType::uint8);
  const auto epilogue = gradient_epilogue_of(below);
  const bool dense = grad_pre.is_contiguous() && w.is_contiguous() && grad_x.is_contiguous();
  if (epilogue && dense && !accumulate && grad_x.count() > 0 && grad_pre.count() > 0) {
    const std::int64_t out = w.shape()[0], in = w.shape()[1];
    const BlasProduct product{.m = in,
                              .n = grad_pre.shape()[0],
                              .k = out,
                              .a = {w.data(), in},
                              .b = {grad_pre.data(), out},
                              .c = {grad_x.data(), in},
                              .factors = w.dtype(),
                              .result = grad_x.dtype()};
    if (Cublas::of(w.context()).multiply(product, *epilogue)) return;
  }
  Kernels::linear_input_gradient(grad_pre, w, below, grad_x, accumulate);
}

}  // namespace lockstep::kernels::cuda

// Batched matrix products on operands of any strides, by cuBLAS.
#include <algorithm>
#include <optional>
#include <utility>

#include "framework/kernels/cuda/cublas.h"
#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/product_shapes.h"

namespace lockstep::kernels::cuda {
namespace {

// The last two axes of a tensor as a stored column-major matrix; none where neither axis is dense,
// or columns overlap (an expanded axis).
std::optional<BlasMatrix> blas_matrix(const Tensor& t) {
  const auto rank = static_cast<std::size_t>(t.rank());
  const std::int64_t rows = t.shape()[t.rank() - 2], columns = t.shape().back();
  const std::int64_t row_stride = t.strides()[rank - 2], column_stride = t.strides()[rank - 1];
  // The stride of an axis of one element is never used.
  if (rows <= 1 || row_stride == 1) {
    if (columns <= 1) return BlasMatrix{t.data(), std::max<std::int64_t>(1, rows)};
    if (column_stride >= rows) return BlasMatrix{t.data(), column_stride};
  }
  if (columns <= 1 || column_stride == 1) {
    if (rows <= 1) return BlasMatrix{t.data(), std::max<std::int64_t>(1, columns), true};
    if (row_stride >= columns) return BlasMatrix{t.data(), row_stride, true};
  }
  return std::nullopt;
}

// c^T = b^T a^T.
BlasProduct transposed(BlasProduct product) {
  std::swap(product.m, product.n);
  std::swap(product.a, product.b);
  for (BlasMatrix* const matrix : {&product.a, &product.b, &product.c}) {
    matrix->transposed = !matrix->transposed;
  }
  return product;
}

// All products of a batch whose matrices cuBLAS can take as they are.
void multiply(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) {
  Axes batch = matmul_batch(a, b, c);
  BlasProduct product{.m = c.shape()[c.rank() - 2],
                      .n = c.shape().back(),
                      .k = a.shape().back(),
                      .a = *blas_matrix(a),
                      .b = *blas_matrix(b),
                      .c = *blas_matrix(c),
                      .beta = accumulate ? 1.0 : 0.0,
                      .factors = a.dtype(),
                      .result = c.dtype()};
  const Axis inner = batch.pop();
  product.batch = inner.extent;
  product.c.batch_stride = inner.stride[0];
  product.a.batch_stride = inner.stride[1];
  product.b.batch_stride = inner.stride[2];
  const auto advance = [](BlasMatrix& matrix, DType dtype, std::int64_t elements) {
    const auto size = static_cast<std::int64_t>(base::size_of(dtype));
    matrix.data = static_cast<std::byte*>(matrix.data) + elements * size;
  };
  Cublas& cublas = Cublas::of(c.context());
  for (std::int64_t i = 0; i < batch.count(); ++i) {
    const Offsets at = batch.offsets(i);
    BlasProduct one = product;
    advance(one.c, one.result, at[0]);
    advance(one.a, one.factors, at[1]);
    advance(one.b, one.factors, at[2]);
    cublas.multiply(one.c.transposed ? transposed(one) : one);
  }
}

}  // namespace

void CudaKernels::set_product_precision(Context& context, ProductPrecision precision) const {
  Cublas::of(context).set_precision(precision);
}

ProductPrecision CudaKernels::product_precision(Context& context) const {
  return Cublas::of(context).precision();
}

void CudaKernels::matmul(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) const {
  matmul_batch(a, b, c);
  require_factors("matmul", a, b, c);
  if (c.count() == 0) return;
  if (a.shape().back() == 0) {
    if (!accumulate) fill(0, c);
    return;
  }
  const Tensor left = blas_matrix(a) ? a : contiguous_on_device(a);
  const Tensor right = blas_matrix(b) ? b : contiguous_on_device(b);
  if (blas_matrix(c)) return multiply(left, right, c, accumulate);
  const Tensor product = Tensor::empty(c.context(), c.shape(), c.dtype());
  multiply(left, right, product, false);
  axpby(1, product, accumulate ? 1 : 0, c);
}

}  // namespace lockstep::kernels::cuda

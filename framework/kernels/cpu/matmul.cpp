// Batched matrix products on operands of any strides.
#include <type_traits>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/product.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/product_shapes.h"

namespace lockstep::kernels {
namespace {

// The last two axes of a tensor.
template <class T, class Element = std::remove_const_t<T>>
MatrixView<T> matrix(const Tensor& t) {
  const auto rank = static_cast<std::size_t>(t.rank());
  return {t.data<Element>(), t.strides()[rank - 2], t.strides()[rank - 1]};
}

template <class T>
void run_products(Axes batch, const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) {
  GemmArguments<T> first{
      c.shape()[c.rank() - 2], c.shape().back(), a.shape().back(), matrix<const T>(a),
      matrix<const T>(b),      matrix<T>(c),     accumulate};
  // Rows of a and c that follow each other evenly across batches that share b make one taller
  // product.
  const Axis inner = batch.innermost();
  if (inner.stride == Offsets{first.m * first.c.row_stride, first.m * first.a.row_stride, 0}) {
    first.m *= batch.pop().extent;
  }
  const Tiling tiling(first.m, first.n, c.context().threads().size());
  c.context().threads().for_each(batch.count() * tiling.count(), [&](std::int64_t task) {
    const Offsets at = batch.offsets(task / tiling.count());
    GemmArguments<T> arguments = part(first, tiling[task % tiling.count()]);
    arguments.c.data += at[0];
    arguments.a.data += at[1];
    arguments.b.data += at[2];
    gemm(arguments);
  });
}

}  // namespace

void CpuKernels::set_product_precision(Context& /*context*/, ProductPrecision precision) const {
  if (precision == ProductPrecision::float32) return;
  throw UsageError("matmul: products of another precision than float32 are for GPUs");
}

ProductPrecision CpuKernels::product_precision(Context& /*context*/) const {
  return ProductPrecision::float32;
}

void CpuKernels::matmul(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) const {
  const Axes batch = matmul_batch(a, b, c);
  if (c.count() == 0) return;
  visit_float("matmul", c.dtype(),
              [&]<class T>(base::TypeTag<T>) { run_products<T>(batch, a, b, c, accumulate); });
}

}  // namespace lockstep::kernels

// Batched matrix products on operands of any strides.
#include <type_traits>

#include "framework/kernels/cpu/axes.h"
#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/dispatch.h"
#include "framework/kernels/cpu/product.h"

namespace lockstep::kernels {
namespace {

// The last two axes of a tensor.
template <class T, class Element = std::remove_const_t<T>>
MatrixView<T> matrix(const Tensor& t) {
  const auto rank = static_cast<std::size_t>(t.rank());
  return {t.data<Element>(), t.strides()[rank - 2], t.strides()[rank - 1]};
}

Shape leading_axes(const Shape& shape) {
  return Shape(shape.extents().first(static_cast<std::size_t>(shape.rank() - 2)));
}

// The batch: one axis for each leading axis, merged. Operands are c, a, b.
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

template <class T>
void run_products(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) {
  GemmArguments<T> first{
      c.shape()[c.rank() - 2], c.shape().back(), a.shape().back(), matrix<const T>(a),
      matrix<const T>(b),      matrix<T>(c),     accumulate};
  Axes batch = batch_axes(a, b, c);
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

void CpuKernels::matmul(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) const {
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
  if (c.count() == 0) return;
  visit_float("matmul", c.dtype(),
              [&]<class T>(base::TypeTag<T>) { run_products<T>(a, b, c, accumulate); });
}

}  // namespace lockstep::kernels

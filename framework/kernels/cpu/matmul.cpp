// Batched matrix products on operands of any strides.
#include <array>
#include <type_traits>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/dispatch.h"
#include "framework/kernels/cpu/loop.h"
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

// The batch of products: for each, where its operands start.
class Batch {
 public:
  Batch(const Tensor& a, const Tensor& b, const Tensor& c) {
    const Shape shape = leading_axes(c.shape());
    const Tensor* const operands[] = {&c, &a, &b};
    for (int axis = 0; axis < shape.rank(); ++axis)
      axes_[static_cast<std::size_t>(axis)].extent = shape[axis];
    for (std::size_t i = 0; i < 3; ++i) {
      const Shape own = leading_axes(operands[i]->shape());
      const int missing = shape.rank() - own.rank();
      for (int axis = 0; axis < own.rank(); ++axis) {
        if (own[axis] == 1) continue;
        axes_[static_cast<std::size_t>(axis + missing)].stride[i] =
            operands[i]->strides()[static_cast<std::size_t>(axis)];
      }
    }
    rank_ = merge_axes({axes_.data(), static_cast<std::size_t>(shape.rank())});
  }

  // Rows of a and c that follow each other evenly across batches that share b make one taller
  // product. Returns its height.
  std::int64_t fold_rows(std::int64_t m, std::int64_t a_row_stride, std::int64_t c_row_stride) {
    while (rank_ > 0) {
      const Axis& inner = axes_[static_cast<std::size_t>(rank_ - 1)];
      if (inner.stride[0] != m * c_row_stride || inner.stride[1] != m * a_row_stride ||
          inner.stride[2] != 0)
        break;
      m *= inner.extent;
      --rank_;
    }
    return m;
  }

  std::int64_t count() const {
    std::int64_t count = 1;
    for (int i = 0; i < rank_; ++i) count *= axes_[static_cast<std::size_t>(i)].extent;
    return count;
  }

  std::array<std::int64_t, max_operands> offsets(std::int64_t index) const {
    std::array<std::int64_t, max_operands> at{};
    for (int i = rank_ - 1; i >= 0; --i) {
      const Axis& axis = axes_[static_cast<std::size_t>(i)];
      for (std::size_t operand = 0; operand < 3; ++operand) {
        at[operand] += index % axis.extent * axis.stride[operand];
      }
      index /= axis.extent;
    }
    return at;
  }

 private:
  std::array<Axis, Shape::max_rank> axes_;
  int rank_ = 0;
};

template <class T>
void run_products(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) {
  GemmArguments<T> first{
      c.shape()[c.rank() - 2], c.shape().back(), a.shape().back(), matrix<const T>(a),
      matrix<const T>(b),      matrix<T>(c),     accumulate};
  Batch batch(a, b, c);
  first.m = batch.fold_rows(first.m, first.a.row_stride, first.c.row_stride);
  const Tiling tiling(first.m, first.n);
  c.context().threads().for_each(batch.count() * tiling.count(), [&](std::int64_t task) {
    const auto at = batch.offsets(task / tiling.count());
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

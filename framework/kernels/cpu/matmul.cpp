// Batched matrix products on operands of any strides.
#include <array>
#include <utility>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/dispatch.h"
#include "framework/kernels/cpu/loop.h"
#include "framework/kernels/cpu/pack.h"
#include "framework/kernels/cpu/product.h"

namespace lockstep::kernels {

Tiling tiles_of(std::int64_t m, std::int64_t n) {
  constexpr std::int64_t rows = 128, columns = 512;
  const std::int64_t across = ceil_div(n, columns);
  return {rows, columns, across, across * ceil_div(m, rows)};
}

namespace {

Strides2d last_two(const Tensor& t) {
  const auto rank = static_cast<std::size_t>(t.rank());
  return {t.strides()[rank - 2], t.strides()[rank - 1]};
}

bool is_blas_matrix(const Tensor& t) {
  return is_blas_matrix(t.shape()[t.rank() - 2], t.shape()[t.rank() - 1], last_two(t));
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
  // product; returns its height.
  std::int64_t fold_rows(std::int64_t m, std::int64_t k, std::int64_t n, Strides2d a, Strides2d c) {
    while (rank_ > 0) {
      const Axis& inner = axes_[static_cast<std::size_t>(rank_ - 1)];
      const std::int64_t taller = m * inner.extent;
      if (inner.stride[2] != 0 || inner.stride[0] != m * c.row || inner.stride[1] != m * a.row ||
          !is_row_major(taller, n, c) || !is_row_major(taller, k, a)) {
        break;
      }
      m = taller;
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
  Batch batch(a, b, c);
  const std::int64_t n = c.shape().back(), k = a.shape().back();
  const std::int64_t m = batch.fold_rows(c.shape()[c.rank() - 2], k, n, last_two(a), last_two(c));
  const Matrix<const T> a_matrix = blas_matrix<const T>(a.data<T>(), m, k, last_two(a));
  const Matrix<const T> b_matrix = blas_matrix<const T>(b.data<T>(), k, n, last_two(b));
  const Matrix<T> c_matrix = blas_matrix<T>(c.data<T>(), m, n, last_two(c));
  const Tiling tiling = tiles_of(m, n);
  c.context().threads().for_each(batch.count() * tiling.count, [&](std::int64_t task) {
    const auto at = batch.offsets(task / tiling.count);
    const auto shifted = [](auto matrix, std::int64_t offset) {
      matrix.data += offset;
      return matrix;
    };
    multiply_tile(tile_at(tiling, task % tiling.count, m, n), k, shifted(a_matrix, at[1]),
                  shifted(b_matrix, at[2]), accumulate ? T(1) : T(0), shifted(c_matrix, at[0]));
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
  if (k == 0) {
    if (!accumulate) fill(0, c);
    return;
  }
  // BLAS writes rows: a transposed c is the product of the transposes.
  if (!is_row_major(m, n, last_two(c))) {
    const Strides2d strides = last_two(c);
    if (is_row_major(n, m, {strides.column, strides.row})) {
      return matmul(b.transpose(-2, -1), a.transpose(-2, -1), c.transpose(-2, -1), accumulate);
    }
    const Tensor fresh = accumulate ? packed(c) : Tensor::empty(c.context(), c.shape(), c.dtype());
    matmul(a, b, fresh, accumulate);
    return copy(fresh, c);
  }
  visit_float("matmul", c.dtype(), [&]<class T>(base::TypeTag<T>) {
    run_products<T>(is_blas_matrix(a) ? a : packed(a), is_blas_matrix(b) ? b : packed(b), c,
                    accumulate);
  });
}

}  // namespace lockstep::kernels

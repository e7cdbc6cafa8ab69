// The linear layer with its bias and activation applied to each tile of the product while it is in
// cache, and the same pass backwards.
#include <algorithm>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/functions.h"
#include "framework/kernels/cpu/loop.h"
#include "framework/kernels/cpu/pack.h"
#include "framework/kernels/cpu/product.h"
#include "framework/kernels/cpu/reduce.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/product_shapes.h"

namespace lockstep::kernels {
namespace {

// One row of a tile: pre = product + bias, y = f(pre), from the product in `pre` or `y`.
template <class T, class F>
void finish_row(std::int64_t n, F f, const T* bias, T* pre, T* y) {
  if (pre) {
    if (bias)
      transform_row(
          n, {1, 1, 1}, [](T v, T b) { return v + b; }, pre, static_cast<const T*>(pre), bias);
    transform_row(n, {1, 1}, f, y, static_cast<const T*>(pre));
  } else if (bias) {
    transform_row(
        n, {1, 1, 1}, [f](T v, T b) { return f(v + b); }, y, static_cast<const T*>(y), bias);
  } else if constexpr (!std::is_same_v<F, Identity>) {
    transform_row(n, {1, 1}, f, y, static_cast<const T*>(y));
  }
}

// out = the gradient before the activation, and its column sums, in a strip of up to column_strip
// columns of matrices whose rows are `stride` apart. `out` may be `grad`.
template <class T, class F>
void backward_strip(std::int64_t rows, std::int64_t columns, std::int64_t stride, F f,
                    const T* saved, const T* grad, T* out, double* sums) {
  for (std::int64_t first = 0; first < rows; first += column_run) {
    T partial[column_strip] = {};
    for (std::int64_t row = first; row < std::min(first + column_run, rows); ++row) {
      const std::int64_t at = row * stride;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < columns; ++i) {
        const T gradient = f.backward(saved[at + i], grad[at + i]);
        out[at + i] = gradient;
        partial[i] += gradient;
      }
    }
    for (std::int64_t i = 0; i < columns; ++i) sums[i] += static_cast<double>(partial[i]);
  }
}

}  // namespace

ActivationRecord CpuKernels::linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                                    Activation activation, bool keep, const Tensor& y) const {
  const LinearShape shape = linear_shape(x, w, bias, y);
  const std::int64_t m = shape.m, n = shape.n, k = shape.k;
  const ActivationRecord record = keep ? make_record(activation, y) : ActivationRecord();
  if (y.count() == 0) return record;
  visit_float("linear", y.dtype(), [&]<class T>(base::TypeTag<T>) {
    T* const to = y.data<T>();
    T* const before = record.pre.defined() ? record.pre.data<T>() : nullptr;
    const T* const shift = bias.defined() ? bias.data<T>() : nullptr;
    const GemmArguments<T> whole{m,
                                 n,
                                 k,
                                 {x.data<T>(), x.strides()[0], x.strides()[1]},
                                 {w.data<T>(), w.strides()[1], w.strides()[0]},
                                 {before ? before : to, n, 1}};
    const Tiling tiling(m, n, y.context().threads().size());
    visit_activation(activation, [&](auto f) {
      y.context().threads().for_each(tiling.count(), [&](std::int64_t task) {
        const Tile tile = tiling[task];
        gemm(part(whole, tile));
        for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
          const std::int64_t at = row * n + tile.column;
          finish_row(tile.columns, f, shift ? shift + tile.column : nullptr,
                     before ? before + at : nullptr, to + at);
        }
      });
    });
  });
  return record;
}

void CpuKernels::bias_activation_backward(const ActivationRecord& record, const Tensor& grad_y,
                                          const Tensor& grad_pre, const Tensor& grad_bias,
                                          bool accumulate_bias) const {
  const Tensor saved = require_bias_activation_backward(record, grad_y, grad_pre, grad_bias);
  const std::int64_t m = grad_y.shape()[0], n = grad_y.shape()[1];
  visit_float("bias_activation_backward", grad_pre.dtype(), [&]<class T>(base::TypeTag<T>) {
    visit_activation(record.activation, [&](auto f) {
      const Tensor saved_rows = contiguous(saved), grad_rows = contiguous(grad_y);
      const T* const values = saved_rows.data<T>();
      const T* const from = grad_rows.data<T>();
      T* const to = grad_pre.data<T>();
      T* const bias = grad_bias.defined() ? grad_bias.data<T>() : nullptr;
      for_blocks(grad_pre.context(), n, column_strip, [&](std::int64_t begin, std::int64_t end) {
        double sums[column_strip] = {};
        backward_strip(m, end - begin, n, f, values + begin, from + begin, to + begin, sums);
        if (!bias) return;
        for (std::int64_t i = begin; i < end; ++i) {
          const T sum = static_cast<T>(sums[i - begin]);
          bias[i] = accumulate_bias ? bias[i] + sum : sum;
        }
      });
    });
  });
}

}  // namespace lockstep::kernels

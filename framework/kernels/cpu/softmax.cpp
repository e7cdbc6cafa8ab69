// Softmax and log-softmax over the last axis. Rows are shifted by their maximum, so that no
// exponential overflows; sums are double.
#include <cmath>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/pack.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/reduce.h"
#include "framework/kernels/cpu/vector_math.h"
#include "framework/kernels/dispatch.h"

namespace lockstep::kernels {
namespace {

// Calls body(row as pointers..., length) for each row of contiguous tensors of one shape.
template <class Body>
void for_each_row(const Tensor& shape_of, Body&& body) {
  const std::int64_t length = shape_of.shape().back();
  if (shape_of.count() == 0) return;
  for_row_blocks(shape_of.context(), shape_of.count() / length, length,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row) body(row * length, length);
                 });
}

void require_rows(std::string_view kernel, const Tensor& in, const Tensor& out) {
  require_rank(kernel, "the input", in, 1);
  require_shape(kernel, "the output", out, in.shape());
  require_contiguous(kernel, "the output", out);
}

}  // namespace

void CpuKernels::softmax(const Tensor& x, const Tensor& y) const {
  require_rows("softmax", x, y);
  const Tensor rows = contiguous(x);
  visit_float("softmax", y.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T* const from = rows.data<T>();
    T* const to = y.data<T>();
    for_each_row(y, [=](std::int64_t at, std::int64_t n) {
      const T* const in = from + at;
      T* const out = to + at;
      const T largest = lane_max(n, in);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = vector_exp(in[i] - largest);
      const T factor = static_cast<T>(1 / lane_sum(n, [=](std::int64_t i) { return out[i]; }));
      for (std::int64_t i = 0; i < n; ++i) out[i] *= factor;
    });
  });
}

void CpuKernels::softmax_backward(const Tensor& y, const Tensor& grad_y, const Tensor& grad_x,
                                  bool accumulate) const {
  require_rows("softmax_backward", y, grad_x);
  require_shape("softmax_backward", "grad_y", grad_y, y.shape());
  const Tensor y_rows = contiguous(y), grad_rows = contiguous(grad_y);
  visit_float("softmax_backward", grad_x.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T* const values = y_rows.data<T>();
    const T* const from = grad_rows.data<T>();
    T* const to = grad_x.data<T>();
    for_each_row(grad_x, [=](std::int64_t at, std::int64_t n) {
      const T* const v = values + at;
      const T* const g = from + at;
      T* const out = to + at;
      const T dot = static_cast<T>(lane_sum(n, [=](std::int64_t i) { return g[i] * v[i]; }));
      if (accumulate) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) out[i] += v[i] * (g[i] - dot);
      } else {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) out[i] = v[i] * (g[i] - dot);
      }
    });
  });
}

void CpuKernels::log_softmax(const Tensor& x, const Tensor& y) const {
  require_rows("log_softmax", x, y);
  const Tensor rows = contiguous(x);
  visit_float("log_softmax", y.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T* const from = rows.data<T>();
    T* const to = y.data<T>();
    for_each_row(y, [=](std::int64_t at, std::int64_t n) {
      const T* const in = from + at;
      T* const out = to + at;
      const T largest = lane_max(n, in);
      const double sum = lane_sum(n, [=](std::int64_t i) { return vector_exp(in[i] - largest); });
      const T log_sum = static_cast<T>(std::log(sum));
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = (in[i] - largest) - log_sum;
    });
  });
}

void CpuKernels::log_softmax_backward(const Tensor& y, const Tensor& grad_y, const Tensor& grad_x,
                                      bool accumulate) const {
  require_rows("log_softmax_backward", y, grad_x);
  require_shape("log_softmax_backward", "grad_y", grad_y, y.shape());
  const Tensor y_rows = contiguous(y), grad_rows = contiguous(grad_y);
  visit_float("log_softmax_backward", grad_x.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T* const values = y_rows.data<T>();
    const T* const from = grad_rows.data<T>();
    T* const to = grad_x.data<T>();
    for_each_row(grad_x, [=](std::int64_t at, std::int64_t n) {
      const T* const v = values + at;
      const T* const g = from + at;
      T* const out = to + at;
      const T sum = static_cast<T>(lane_sum(n, [=](std::int64_t i) { return g[i]; }));
      if (accumulate) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) out[i] += g[i] - vector_exp(v[i]) * sum;
      } else {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) out[i] = g[i] - vector_exp(v[i]) * sum;
      }
    });
  });
}

}  // namespace lockstep::kernels

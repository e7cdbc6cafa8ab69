#include "framework/kernels/cuda/softmax.h"

#include "framework/kernels/cuda/rows.cuh"

namespace lockstep::kernels::cuda {
namespace {

template <class T>
struct Softmax {
  Rows rows;
  const T* x;
  T* y;

  template <int warps>
  __device__ void operator()(const Team<warps>& team, std::int64_t row) const {
    const T* const in = x + row * rows.length;
    const T largest = largest_of(team, rows, in);
    const T factor = static_cast<T>(1 / sum_of_exponentials(team, rows, in, largest));
    team.transform(
        rows.length, rows.aligned, y + row * rows.length,
        [=](std::int64_t, T v) { return std::exp(v - largest) * factor; }, in);
  }
};

template <class T>
struct LogSoftmax {
  Rows rows;
  const T* x;
  T* y;

  template <int warps>
  __device__ void operator()(const Team<warps>& team, std::int64_t row) const {
    const T* const in = x + row * rows.length;
    const T largest = largest_of(team, rows, in);
    const T log_sum = static_cast<T>(std::log(sum_of_exponentials(team, rows, in, largest)));
    team.transform(
        rows.length, rows.aligned, y + row * rows.length,
        [=](std::int64_t, T v) { return (v - largest) - log_sum; }, in);
  }
};

// Of the softmax, or with `logarithm` of its logarithm, whose output y is then.
template <class T, bool logarithm>
struct SoftmaxBackward {
  Rows rows;
  const T* y;
  const T* grad_y;
  T* grad_x;
  bool accumulate;

  template <int warps>
  __device__ void operator()(const Team<warps>& team, std::int64_t row) const {
    const T* const values = y + row * rows.length;
    const T* const grad = grad_y + row * rows.length;
    T* const out = grad_x + row * rows.length;
    double part = 0;
    team.visit(
        rows.length, rows.aligned,
        [&](std::int64_t, T v, T g) { part += static_cast<double>(logarithm ? g : g * v); }, values,
        grad);
    const T sum = static_cast<T>(team.sum(part));
    const auto gradient = [=](T v, T g) {
      return logarithm ? g - std::exp(v) * sum : v * (g - sum);
    };
    if (accumulate) {
      team.transform(
          rows.length, rows.aligned, out,
          [=](std::int64_t, T v, T g, T before) { return before + gradient(v, g); }, values, grad,
          static_cast<const T*>(out));
    } else {
      team.transform(
          rows.length, rows.aligned, out, [=](std::int64_t, T v, T g) { return gradient(v, g); },
          values, grad);
    }
  }
};

}  // namespace

template <class T>
void launch_softmax(const device::CudaStream& stream, std::int64_t rows, std::int64_t length,
                    const T* x, T* y) {
  const Rows all = rows_of(rows, length, x, static_cast<const T*>(y));
  launch_rows(stream, all, Softmax<T>{all, x, y});
}

template <class T>
void launch_log_softmax(const device::CudaStream& stream, std::int64_t rows, std::int64_t length,
                        const T* x, T* y) {
  const Rows all = rows_of(rows, length, x, static_cast<const T*>(y));
  launch_rows(stream, all, LogSoftmax<T>{all, x, y});
}

template <class T>
void launch_softmax_backward(const device::CudaStream& stream, std::int64_t rows,
                             std::int64_t length, const T* y, const T* grad_y, T* grad_x,
                             bool accumulate) {
  const Rows all = rows_of(rows, length, y, grad_y, static_cast<const T*>(grad_x));
  launch_rows(stream, all, SoftmaxBackward<T, false>{all, y, grad_y, grad_x, accumulate});
}

template <class T>
void launch_log_softmax_backward(const device::CudaStream& stream, std::int64_t rows,
                                 std::int64_t length, const T* y, const T* grad_y, T* grad_x,
                                 bool accumulate) {
  const Rows all = rows_of(rows, length, y, grad_y, static_cast<const T*>(grad_x));
  launch_rows(stream, all, SoftmaxBackward<T, true>{all, y, grad_y, grad_x, accumulate});
}

#define LOCKSTEP_SOFTMAX(T)                                                                        \
  template void launch_softmax(const device::CudaStream&, std::int64_t, std::int64_t, const T*,    \
                               T*);                                                                \
  template void launch_log_softmax(const device::CudaStream&, std::int64_t, std::int64_t,          \
                                   const T*, T*);                                                  \
  template void launch_softmax_backward(const device::CudaStream&, std::int64_t, std::int64_t,     \
                                        const T*, const T*, T*, bool);                             \
  template void launch_log_softmax_backward(const device::CudaStream&, std::int64_t, std::int64_t, \
                                            const T*, const T*, T*, bool);
LOCKSTEP_SOFTMAX(float)
LOCKSTEP_SOFTMAX(double)
#undef LOCKSTEP_SOFTMAX

}  // namespace lockstep::kernels::cuda

#include "framework/kernels/cuda/activation.h"

#include "framework/base/dtype.h"
#include "framework/kernels/cuda/columns.cuh"
#include "framework/kernels/cuda/functions.cuh"

namespace lockstep::kernels::cuda {
namespace {

constexpr int width = 4;

template <class T>
__global__ void bias_activation(std::int64_t count, std::int64_t columns, bool aligned,
                                ActivationFunction f, const T* bias, const T* product, T* pre,
                                T* y) {
  if (aligned) {
    for (std::int64_t i = grid_thread(); i < count / width; i += grid_stride()) {
      const std::int64_t at = i * width;
      Chunk<width, T> value = load_chunk<width>(product + at);
      if (bias != nullptr) {
        const Chunk<width, T> shift = load_chunk<width>(bias + at % columns);
#pragma unroll
        for (int lane = 0; lane < width; ++lane) value.lane[lane] += shift.lane[lane];
      }
      if (pre != nullptr) store_chunk(pre + at, value);
#pragma unroll
      for (int lane = 0; lane < width; ++lane) value.lane[lane] = f(value.lane[lane]);
      store_chunk(y + at, value);
    }
    return;
  }
  for (std::int64_t at = grid_thread(); at < count; at += grid_stride()) {
    const T value = bias == nullptr ? product[at] : product[at] + bias[at % columns];
    if (pre != nullptr) pre[at] = value;
    y[at] = f(value);
  }
}

template <class T, class Pre>
struct GradientTerm {
  std::int64_t columns;
  ActivationFunction f;
  const T* saved;
  const T* grad_y;
  Pre* grad_pre;
  __device__ double operator()(const Places&, std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * columns + column;
    const T gradient = f.backward(saved[at], grad_y[at]);
    grad_pre[at] = Pre(gradient);
    return static_cast<double>(gradient);
  }
};

}  // namespace

template <class T>
void launch_bias_activation(const device::CudaStream& stream, std::int64_t rows,
                            std::int64_t columns, Activation activation, const T* bias,
                            const T* product, T* pre, T* y) {
  const auto is_aligned = [](const T* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  };
  const bool aligned = columns % width == 0 && is_aligned(bias) && is_aligned(product) &&
                       is_aligned(pre) && is_aligned(y);
  const std::int64_t count = rows * columns;
  device::launch(stream, {blocks_for(aligned ? count / width : count), block_threads},
                 bias_activation<T>, count, columns, aligned, ActivationFunction{activation}, bias,
                 product, pre, y);
}

template <class T, class Pre>
void launch_bias_activation_backward(const device::CudaStream& stream, const SumPlan& plan,
                                     Activation activation, const T* saved, const T* grad_y,
                                     Pre* grad_pre, T* grad_bias, bool accumulate_bias,
                                     double* parts) {
  const GradientTerm<T, Pre> term{plan.across, {activation}, saved, grad_y, grad_pre};
  launch_sum_down_columns(stream, plan, term, Store<T>{1, accumulate_bias, grad_bias}, parts);
}

#define LOCKSTEP_ACTIVATION(T)                                                                \
  template void launch_bias_activation(const device::CudaStream&, std::int64_t, std::int64_t, \
                                       Activation, const T*, const T*, T*, T*);               \
  template void launch_bias_activation_backward(const device::CudaStream&, const SumPlan&,    \
                                                Activation, const T*, const T*, T*, T*, bool, \
                                                double*);
LOCKSTEP_ACTIVATION(float)
LOCKSTEP_ACTIVATION(double)
#undef LOCKSTEP_ACTIVATION
template void launch_bias_activation_backward(const device::CudaStream&, const SumPlan&, Activation,
                                              const float*, const float*, bfloat16*, float*, bool,
                                              double*);

}  // namespace lockstep::kernels::cuda

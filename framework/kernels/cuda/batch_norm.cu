#include "framework/kernels/cuda/batch_norm.h"

#include "framework/base/division.h"
#include "framework/kernels/cuda/columns.cuh"

namespace lockstep::kernels::cuda {
namespace {

// A block for each strip of neighbouring features; its rows of threads share out the rows of x.
class Strip {
 public:
  __device__ explicit Strip(const BatchNormShape& shape)
      : shape_(shape), feature_(std::int64_t{blockIdx.x} * columns_of_a_block + threadIdx.x) {}

  __device__ bool inside() const { return feature_ < shape_.features; }
  __device__ bool first() const { return threadIdx.y == 0 && inside(); }
  __device__ std::int64_t feature() const { return feature_; }

  // Sum of term(place in the matrix) over the rows, in the same order in every thread of a feature.
  template <class Term>
  __device__ double sum(Term term) const {
    LOCKSTEP_SHARED(lane_sums, double[row_lanes][columns_of_a_block]);
    double sum = 0;
    if (inside()) {
      for (std::int64_t row = threadIdx.y; row < shape_.rows; row += row_lanes) {
        sum += term(row * shape_.features + feature_);
      }
    }
    lane_sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = 0;
    for (int lane = 0; lane < row_lanes; ++lane) sum += lane_sums[lane][threadIdx.x];
    __syncthreads();
    return sum;
  }

 private:
  BatchNormShape shape_;
  std::int64_t feature_;
};

device::LaunchShape strips_of(const BatchNormShape& shape) {
  const std::int64_t strips = base::ceil_div(shape.features, columns_of_a_block);
  return {static_cast<unsigned>(strips), dim3(columns_of_a_block, row_lanes)};
}

template <class T>
__global__ void batch_statistics(BatchNormShape shape, const T* x, double epsilon, double momentum,
                                 T* running_mean, T* running_variance, T* mean,
                                 T* inverse_deviation) {
  const Strip strip(shape);
  const auto n = static_cast<double>(shape.rows);
  const double average = strip.sum([=](std::int64_t at) { return static_cast<double>(x[at]); }) / n;
  const double squares = strip.sum([=](std::int64_t at) {
    const double difference = static_cast<double>(x[at]) - average;
    return difference * difference;
  });
  if (!strip.first()) return;
  const std::int64_t f = strip.feature();
  const auto moved = [=](T from, double to) {
    return static_cast<T>((1 - momentum) * static_cast<double>(from) + momentum * to);
  };
  mean[f] = static_cast<T>(average);
  inverse_deviation[f] = static_cast<T>(1 / std::sqrt(squares / n + epsilon));
  running_mean[f] = moved(running_mean[f], average);
  running_variance[f] = moved(running_variance[f], squares / (n - 1));
}

template <class T>
__global__ void inverse_deviation_of(std::int64_t features, double epsilon, const T* variance,
                                     T* inverse_deviation) {
  for (std::int64_t f = grid_thread(); f < features; f += grid_stride()) {
    inverse_deviation[f] =
        static_cast<T>(1 / std::sqrt(static_cast<double>(variance[f]) + epsilon));
  }
}

template <class T>
__global__ void batch_normalize(BatchNormShape shape, const T* x, const T* weight, const T* bias,
                                const T* mean, const T* inverse_deviation, T* y) {
  for (std::int64_t at = grid_thread(); at < shape.rows * shape.features; at += grid_stride()) {
    const std::int64_t f = at % shape.features;
    y[at] = (x[at] - mean[f]) * (inverse_deviation[f] * weight[f]) + bias[f];
  }
}

template <class T>
__global__ void parameter_gradients(BatchNormShape shape, const T* x, const T* mean,
                                    const T* inverse_deviation, const T* grad_y, T* grad_weight,
                                    T* grad_bias) {
  const Strip strip(shape);
  const T centre = strip.inside() ? mean[strip.feature()] : T(0);
  const double sum = strip.sum([=](std::int64_t at) { return static_cast<double>(grad_y[at]); });
  const double product = strip.sum([=](std::int64_t at) {
    return static_cast<double>(grad_y[at]) * static_cast<double>(x[at] - centre);
  });
  if (!strip.first()) return;
  const std::int64_t f = strip.feature();
  grad_bias[f] = static_cast<T>(sum);
  grad_weight[f] = static_cast<T>(product * static_cast<double>(inverse_deviation[f]));
}

template <class T>
__global__ void input_gradient(BatchNormShape shape, const T* x, const T* weight, const T* mean,
                               const T* inverse_deviation, const T* grad_y, const T* grad_weight,
                               const T* grad_bias, T* grad_x, bool accumulate) {
  const T per_row = static_cast<T>(1 / static_cast<double>(shape.rows));
  for (std::int64_t at = grid_thread(); at < shape.rows * shape.features; at += grid_stride()) {
    const std::int64_t f = at % shape.features;
    const T scale = inverse_deviation[f] * weight[f];
    T value = scale * grad_y[at];
    if (grad_weight != nullptr) {
      const T slope = scale * inverse_deviation[f] * grad_weight[f] * per_row;
      const T shift = scale * grad_bias[f] * per_row;
      value = value - slope * (x[at] - mean[f]) - shift;
    }
    grad_x[at] = accumulate ? grad_x[at] + value : value;
  }
}

}  // namespace

template <class T>
void launch_batch_statistics(const device::CudaStream& stream, const BatchNormShape& shape,
                             const T* x, double epsilon, double momentum, T* running_mean,
                             T* running_variance, T* mean, T* inverse_deviation) {
  device::launch(stream, strips_of(shape), batch_statistics<T>, shape, x, epsilon, momentum,
                 running_mean, running_variance, mean, inverse_deviation);
}

template <class T>
void launch_inverse_deviation(const device::CudaStream& stream, std::int64_t features,
                              double epsilon, const T* variance, T* inverse_deviation) {
  device::launch(stream, {blocks_for(features), block_threads}, inverse_deviation_of<T>, features,
                 epsilon, variance, inverse_deviation);
}

template <class T>
void launch_batch_normalize(const device::CudaStream& stream, const BatchNormShape& shape,
                            const T* x, const T* weight, const T* bias, const T* mean,
                            const T* inverse_deviation, T* y) {
  device::launch(stream, {blocks_for(shape.rows * shape.features), block_threads},
                 batch_normalize<T>, shape, x, weight, bias, mean, inverse_deviation, y);
}

template <class T>
void launch_batch_norm_parameter_gradients(const device::CudaStream& stream,
                                           const BatchNormShape& shape, const T* x, const T* mean,
                                           const T* inverse_deviation, const T* grad_y,
                                           T* grad_weight, T* grad_bias) {
  device::launch(stream, strips_of(shape), parameter_gradients<T>, shape, x, mean,
                 inverse_deviation, grad_y, grad_weight, grad_bias);
}

template <class T>
void launch_batch_norm_input_gradient(const device::CudaStream& stream, const BatchNormShape& shape,
                                      const T* x, const T* weight, const T* mean,
                                      const T* inverse_deviation, const T* grad_y,
                                      const T* grad_weight, const T* grad_bias, T* grad_x,
                                      bool accumulate) {
  device::launch(stream, {blocks_for(shape.rows * shape.features), block_threads},
                 input_gradient<T>, shape, x, weight, mean, inverse_deviation, grad_y, grad_weight,
                 grad_bias, grad_x, accumulate);
}

#define LOCKSTEP_BATCH_NORM(T)                                                                     \
  template void launch_batch_statistics(const device::CudaStream&, const BatchNormShape&,          \
                                        const T*, double, double, T*, T*, T*, T*);                 \
  template void launch_inverse_deviation(const device::CudaStream&, std::int64_t, double,          \
                                         const T*, T*);                                            \
  template void launch_batch_normalize(const device::CudaStream&, const BatchNormShape&, const T*, \
                                       const T*, const T*, const T*, const T*, T*);                \
  template void launch_batch_norm_parameter_gradients(const device::CudaStream&,                   \
                                                      const BatchNormShape&, const T*, const T*,   \
                                                      const T*, const T*, T*, T*);                 \
  template void launch_batch_norm_input_gradient(const device::CudaStream&, const BatchNormShape&, \
                                                 const T*, const T*, const T*, const T*, const T*, \
                                                 const T*, const T*, T*, bool);
LOCKSTEP_BATCH_NORM(float)
LOCKSTEP_BATCH_NORM(double)
#undef LOCKSTEP_BATCH_NORM

}  // namespace lockstep::kernels::cuda

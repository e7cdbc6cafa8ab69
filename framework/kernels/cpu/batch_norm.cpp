// Batch normalisation. The features are cut into strips that stay in cache from the first pass over
// their rows to the last; the rows of a strip are summed in order, in double.
#include <cmath>

#include "framework/kernels/batch_norm_shape.h"
#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/reduce.h"

namespace lockstep::kernels {
namespace {

template <class Body>
void for_strips(Context& context, std::int64_t features, Body&& body) {
  for_blocks(context, features, column_strip,
             [&](std::int64_t begin, std::int64_t end) { body(begin, end - begin); });
}

// sums[i] += term(row, i) over the rows, for one strip.
template <class Term>
void sum_rows(std::int64_t rows, std::int64_t columns, double* sums, Term term) {
  for (std::int64_t row = 0; row < rows; ++row) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < columns; ++i) sums[i] += term(row, i);
  }
}

// What turns a feature into y: (x - mean) * scale + bias.
template <class T>
void normalize(std::int64_t rows, std::int64_t columns, std::int64_t stride, const T* x,
               const T* mean, const T* scale, const T* bias, T* y) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* const from = x + row * stride;
    T* const to = y + row * stride;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < columns; ++i) to[i] = (from[i] - mean[i]) * scale[i] + bias[i];
  }
}

template <class T>
void multiply(std::int64_t n, const T* a, const T* b, T* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}

}  // namespace

void CpuKernels::batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            double epsilon, double momentum, const Tensor& running_mean,
                            const Tensor& running_variance, const Tensor& mean,
                            const Tensor& inverse_deviation, const Tensor& y) const {
  const BatchNormShape shape = batch_norm_training_shape(
      x, weight, bias, running_mean, running_variance, mean, inverse_deviation, y);
  visit_float("batch_norm", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    const auto [rows, features] = shape;
    const auto n = static_cast<double>(rows);
    for_strips(x.context(), features, [&](std::int64_t first, std::int64_t columns) {
      const T* const from = x.data<T>() + first;
      double means[column_strip] = {}, squares[column_strip] = {};
      sum_rows(rows, columns, means, [=](std::int64_t row, std::int64_t i) {
        return static_cast<double>(from[row * features + i]);
      });
      for (std::int64_t i = 0; i < columns; ++i) means[i] /= n;
      sum_rows(rows, columns, squares, [=, &means](std::int64_t row, std::int64_t i) {
        const double difference = static_cast<double>(from[row * features + i]) - means[i];
        return difference * difference;
      });
      T* const mean_out = mean.data<T>() + first;
      T* const inverse_out = inverse_deviation.data<T>() + first;
      T* const running_mean_out = running_mean.data<T>() + first;
      T* const running_variance_out = running_variance.data<T>() + first;
      const auto move = [momentum](T& value, double to) {
        value = static_cast<T>((1 - momentum) * static_cast<double>(value) + momentum * to);
      };
      for (std::int64_t i = 0; i < columns; ++i) {
        mean_out[i] = static_cast<T>(means[i]);
        inverse_out[i] = static_cast<T>(1 / std::sqrt(squares[i] / n + epsilon));
        move(running_mean_out[i], means[i]);
        move(running_variance_out[i], squares[i] / (n - 1));
      }
      T scale[column_strip];
      multiply(columns, inverse_out, weight.data<T>() + first, scale);
      normalize(rows, columns, features, from, mean_out, scale, bias.data<T>() + first,
                y.data<T>() + first);
    });
  });
}

void CpuKernels::batch_norm_inference(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                      double epsilon, const Tensor& mean, const Tensor& variance,
                                      const Tensor& inverse_deviation, const Tensor& y) const {
  const BatchNormShape shape =
      batch_norm_inference_shape(x, weight, bias, mean, variance, inverse_deviation, y);
  visit_float("batch_norm", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    const std::int64_t features = shape.features;
    T* const inverse = inverse_deviation.data<T>();
    for (std::int64_t i = 0; i < features; ++i)
      inverse[i] =
          static_cast<T>(1 / std::sqrt(static_cast<double>(variance.data<T>()[i]) + epsilon));
    // Rows are many and features few here, and each row stands for itself.
    for_row_blocks(x.context(), shape.rows, features, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = 0; first < features; first += column_strip) {
        const std::int64_t columns = std::min(column_strip, features - first);
        T scale[column_strip];
        multiply(columns, inverse + first, weight.data<T>() + first, scale);
        const std::int64_t at = begin * features + first;
        normalize(end - begin, columns, features, x.data<T>() + at, mean.data<T>() + first, scale,
                  bias.data<T>() + first, y.data<T>() + at);
      }
    });
  });
}

void CpuKernels::batch_norm_parameter_gradients(const Tensor& x, const Tensor& mean,
                                                const Tensor& inverse_deviation,
                                                const Tensor& grad_y, const Tensor& grad_weight,
                                                const Tensor& grad_bias) const {
  const BatchNormShape shape =
      batch_norm_parameter_shape(x, mean, inverse_deviation, grad_y, grad_weight, grad_bias);
  visit_float("batch_norm", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    const auto [rows, features] = shape;
    for_strips(x.context(), features, [&](std::int64_t first, std::int64_t columns) {
      const T* const from = x.data<T>() + first;
      const T* const gradient = grad_y.data<T>() + first;
      const T* const means = mean.data<T>() + first;
      double sums[column_strip] = {}, products[column_strip] = {};
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t at = row * features;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < columns; ++i) {
          const auto g = static_cast<double>(gradient[at + i]);
          sums[i] += g;
          products[i] += g * static_cast<double>(from[at + i] - means[i]);
        }
      }
      for (std::int64_t i = 0; i < columns; ++i) {
        grad_bias.data<T>()[first + i] = static_cast<T>(sums[i]);
        grad_weight.data<T>()[first + i] = static_cast<T>(
            products[i] * static_cast<double>(inverse_deviation.data<T>()[first + i]));
      }
    });
  });
}

void CpuKernels::batch_norm_input_gradient(const Tensor& x, const Tensor& weight,
                                           const Tensor& mean, const Tensor& inverse_deviation,
                                           const Tensor& grad_y, const Tensor& grad_weight,
                                           const Tensor& grad_bias, const Tensor& grad_x,
                                           bool accumulate) const {
  const BatchNormShape shape = batch_norm_input_shape(x, weight, mean, inverse_deviation, grad_y,
                                                      grad_weight, grad_bias, grad_x);
  const bool of_batch = grad_weight.defined();
  visit_float("batch_norm", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    const auto [rows, features] = shape;
    for_strips(x.context(), features, [&](std::int64_t first, std::int64_t columns) {
      // grad_x = scale * grad_y - slope * (x - mean) - shift
      T scale[column_strip], slope[column_strip] = {}, shift[column_strip] = {};
      const T* const inverse = inverse_deviation.data<T>() + first;
      multiply(columns, inverse, weight.data<T>() + first, scale);
      if (of_batch && rows > 0) {
        const T per_row = static_cast<T>(1 / static_cast<double>(rows));
        for (std::int64_t i = 0; i < columns; ++i) {
          slope[i] = scale[i] * inverse[i] * grad_weight.data<T>()[first + i] * per_row;
          shift[i] = scale[i] * grad_bias.data<T>()[first + i] * per_row;
        }
      }
      const T* const means = mean.data<T>() + first;
      for (std::int64_t row = 0; row < rows; ++row) {
        const T* const from = x.data<T>() + row * features + first;
        const T* const gradient = grad_y.data<T>() + row * features + first;
        T* const out = grad_x.data<T>() + row * features + first;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < columns; ++i) {
          const T value = scale[i] * gradient[i] - slope[i] * (from[i] - means[i]) - shift[i];
          out[i] = accumulate ? out[i] + value : value;
        }
      }
    });
  });
}

}  // namespace lockstep::kernels

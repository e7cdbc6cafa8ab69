// The elementwise functions and their gradients. Which one is a value, not a type: the branch goes
// the same way in every thread and costs nothing beside the memory, while a kernel for each would
// multiply compile time.
#pragma once

#include <cmath>

#include "framework/kernels/cuda/grid.cuh"
#include "framework/kernels/operations.h"

namespace lockstep::kernels::cuda {

// NaN passes through both.
template <class T>
__device__ T relu(T x) {
  return x < T(0) ? T(0) : x;
}
template <class T>
__device__ T relu_gradient(T y, T grad) {
  return y <= T(0) ? T(0) : grad;
}
// Distribution function of the standard normal.
template <class T>
__device__ T normal_distribution(T x) {
  return T(0.5) * std::erfc(x * T(-0.70710678118654752440));
}

template <class T>
__device__ T gelu(T x) {
  return x * normal_distribution(x);
}
template <class T>
__device__ T gelu_gradient(T x, T grad) {
  const T density = T(0.39894228040143267794) * std::exp(T(-0.5) * x * x);
  return grad * (normal_distribution(x) + x * density);
}
// The approximation is x / (1 + e^-2u), where 2u = x (a + b x^2). With the smaller of e^2u and
// e^-2u nothing cancels or overflows; it is 0 from |x| = 22 on in either type, where |x| may end
// therefore.
template <class T>
struct GeluTanh {
  T magnitude, slope, body, tail;  // |x|; of 2|u|; 1 / (1 + e^-2|u|); 1 - body
  __device__ explicit GeluTanh(T x) {
    constexpr T a = T(1.5957691216057307117);                 // sqrt(8 / pi)
    constexpr T b = T(0.071354816272600248776);               // 0.044715 a
    magnitude = std::fabs(x) > T(22) ? T(22) : std::fabs(x);  // NaN passes
    const T square = magnitude * magnitude;
    const T decay = std::exp(-magnitude * (a + b * square));
    slope = a + 3 * b * square;
    body = T(1) / (T(1) + decay);
    tail = decay * body;
  }
};
template <class T>
__device__ T gelu_tanh(T x) {
  const GeluTanh<T> parts(x);
  return relu(x) - parts.magnitude * parts.tail;
}
template <class T>
__device__ T gelu_tanh_gradient(T x, T grad) {
  const GeluTanh<T> parts(x);
  const T change = parts.magnitude * parts.slope * (parts.tail * parts.body);
  return grad * (x < T(0) ? parts.tail - change : parts.body + change);
}
template <class T>
__device__ T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
template <class T>
__device__ T tanh_gradient(T y, T grad) {
  return grad * (T(1) - y * y);
}
template <class T>
__device__ T sigmoid_gradient(T y, T grad) {
  return grad * (y * (T(1) - y));
}

struct UnaryFunction {
  Unary op;

  template <class T>
  __device__ T operator()(T x) const {
    switch (op) {
      case Unary::negate:
        return -x;
      case Unary::relu:
        return relu(x);
      case Unary::gelu:
        return gelu(x);
      case Unary::gelu_tanh:
        return gelu_tanh(x);
      case Unary::tanh:
        return std::tanh(x);
      case Unary::sigmoid:
        return sigmoid(x);
      case Unary::exp:
        return std::exp(x);
      case Unary::log:
        return std::log(x);
      case Unary::sqrt:
        return std::sqrt(x);
      case Unary::square:
        return x * x;
    }
    return x;
  }

  // `saved` is the input or the output, as gradient_from(op) says.
  template <class T>
  __device__ T backward(T saved, T grad) const {
    switch (op) {
      case Unary::negate:
        return -grad;
      case Unary::relu:
        return relu_gradient(saved, grad);
      case Unary::gelu:
        return gelu_gradient(saved, grad);
      case Unary::gelu_tanh:
        return gelu_tanh_gradient(saved, grad);
      case Unary::tanh:
        return tanh_gradient(saved, grad);
      case Unary::sigmoid:
        return sigmoid_gradient(saved, grad);
      case Unary::exp:
        return grad * saved;
      case Unary::log:
        return grad / saved;
      case Unary::sqrt:
        return grad / (saved + saved);
      case Unary::square:
        return grad * (saved + saved);
    }
    return grad;
  }
};

struct ActivationFunction {
  Activation activation;

  template <class T>
  __device__ T operator()(T x) const {
    switch (activation) {
      case Activation::none:
        return x;
      case Activation::relu:
        return relu(x);
      case Activation::gelu:
        return gelu(x);
      case Activation::gelu_tanh:
        return gelu_tanh(x);
      case Activation::tanh:
        return std::tanh(x);
      case Activation::sigmoid:
        return sigmoid(x);
    }
    return x;
  }

  template <class T>
  __device__ T backward(T saved, T grad) const {
    switch (activation) {
      case Activation::none:
        return grad;
      case Activation::relu:
        return relu_gradient(saved, grad);
      case Activation::gelu:
        return gelu_gradient(saved, grad);
      case Activation::gelu_tanh:
        return gelu_tanh_gradient(saved, grad);
      case Activation::tanh:
        return tanh_gradient(saved, grad);
      case Activation::sigmoid:
        return sigmoid_gradient(saved, grad);
    }
    return grad;
  }
};

}  // namespace lockstep::kernels::cuda

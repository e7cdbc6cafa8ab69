// The elementwise functions and their gradients, as function objects that the loops inline.
//
// f(x) is the value; f.backward(s, g) the gradient of the input, where g is the gradient of the
// output and s the input or the output, whichever gradient_from() names.
#pragma once

#include <cmath>

#include "framework/kernels/cpu/vector_math.h"
#include "framework/kernels/kernels.h"

namespace lockstep::kernels {

struct Identity {
  template <class T>
  T operator()(T x) const {
    return x;
  }
  template <class T>
  T backward(T, T g) const {
    return g;
  }
};

struct Negate {
  template <class T>
  T operator()(T x) const {
    return -x;
  }
  template <class T>
  T backward(T, T g) const {
    return -g;
  }
};

// Written so that NaN passes.
struct Relu {
  template <class T>
  T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }
  template <class T>
  T backward(T y, T g) const {
    return y <= T(0) ? T(0) : g;
  }
};

// x * Phi(x), Phi the distribution function of the standard normal.
struct Gelu {
  template <class T>
  T operator()(T x) const {
    return x * normal_cdf(x, gauss(x));
  }
  template <class T>
  T backward(T x, T g) const {
    constexpr T inverse_sqrt_two_pi = T(0.39894228040143267794);
    const T density = gauss(x);
    return g * (normal_cdf(x, density) + x * (inverse_sqrt_two_pi * density));
  }
};

// x (1 + tanh(u)) / 2, which is relu(x) - |x| * tail on either side: nothing cancels where the
// value is small, nothing overflows, and infinite x give the limits.
struct GeluTanh {
  template <class T>
  T operator()(T x) const {
    const auto parts = tanh_distribution(x);
    return fused(-parts.magnitude, parts.tail, Relu{}(x));
  }
  template <class T>
  T backward(T x, T g) const {
    const auto [magnitude, slope, body, tail] = tanh_distribution(x);
    const T change = magnitude * slope * (tail * body);
    return g * (x < T(0) ? tail - change : body + change);
  }
};

struct Tanh {
  template <class T>
  T operator()(T x) const {
    return vector_tanh(x);
  }
  template <class T>
  T backward(T y, T g) const {
    return g * (T(1) - y * y);
  }
};

struct Sigmoid {
  template <class T>
  T operator()(T x) const {
    return T(1) / (T(1) + vector_exp(-x));
  }
  template <class T>
  T backward(T y, T g) const {
    return g * (y * (T(1) - y));
  }
};

struct Exp {
  template <class T>
  T operator()(T x) const {
    return vector_exp(x);
  }
  template <class T>
  T backward(T y, T g) const {
    return g * y;
  }
};

struct Log {
  template <class T>
  T operator()(T x) const {
    return vector_log(x);
  }
  template <class T>
  T backward(T x, T g) const {
    return g / x;
  }
};

struct Sqrt {
  template <class T>
  T operator()(T x) const {
    return std::sqrt(x);
  }
  template <class T>
  T backward(T y, T g) const {
    return g / (y + y);
  }
};

struct Square {
  template <class T>
  T operator()(T x) const {
    return x * x;
  }
  template <class T>
  T backward(T x, T g) const {
    return g * (x + x);
  }
};

// Calls f with the function object of `activation`.
template <class F>
void visit_activation(Activation activation, F&& f) {
  switch (activation) {
    case Activation::none:
      return f(Identity{});
    case Activation::relu:
      return f(Relu{});
    case Activation::gelu:
      return f(Gelu{});
    case Activation::gelu_tanh:
      return f(GeluTanh{});
    case Activation::tanh:
      return f(Tanh{});
    case Activation::sigmoid:
      return f(Sigmoid{});
  }
  __builtin_unreachable();
}

}  // namespace lockstep::kernels

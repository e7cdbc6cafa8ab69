// exp, tanh and the normal distribution function as straight-line code that the compiler
// vectorises.
#pragma once

#include <cmath>

namespace lockstep::kernels {

template <class T>
T vector_exp(T x) {
  return std::exp(x);
}
template <class T>
T vector_tanh(T x) {
  return std::tanh(x);
}
template <class T>
T normal_cdf(T x) {
  return T(0.5) * std::erfc(x * T(-0.70710678118654752440));
}

}  // namespace lockstep::kernels

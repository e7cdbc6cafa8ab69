#include "framework/kernels/cuda/elementwise.h"

#include "framework/kernels/cuda/functions.cuh"
#include "framework/kernels/cuda/map.cuh"

namespace lockstep::kernels::cuda {
namespace {

struct UnaryBackward {
  UnaryFunction f;
  template <class T>
  __device__ T operator()(T saved, T grad) const {
    return f.backward(saved, grad);
  }
  template <class T>
  __device__ T operator()(T saved, T grad, T sum) const {
    return sum + f.backward(saved, grad);
  }
};

struct BinaryFunction {
  Binary op;
  template <class T>
  __device__ T operator()(T a, T b) const {
    switch (op) {
      case Binary::add:
        return a + b;
      case Binary::subtract:
        return a - b;
      case Binary::multiply:
        return a * b;
      case Binary::divide:
        return a / b;
    }
    return a;
  }
};

template <class T>
struct Axpby {
  T alpha, beta;
  __device__ T operator()(T x) const { return alpha * x; }
  __device__ T operator()(T x, T out) const { return alpha * x + beta * out; }
};

template <class T>
struct ScaledProduct {
  T alpha;
  __device__ T operator()(T a, T b) const { return alpha * (a * b); }
  __device__ T operator()(T a, T b, T sum) const { return sum + alpha * (a * b); }
};

}  // namespace

template <class T>
void launch_unary(const device::CudaStream& stream, const MapLoop& loop, Unary op, const T* x,
                  T* out) {
  map(stream, loop, UnaryFunction{op}, out, x);
}

template <class T>
void launch_unary_backward(const device::CudaStream& stream, const MapLoop& loop, Unary op,
                           const T* saved, const T* grad_y, T* grad_x, bool accumulate) {
  const UnaryBackward f{{op}};
  if (accumulate) {
    map(stream, loop, f, grad_x, saved, grad_y, static_cast<const T*>(grad_x));
  } else {
    map(stream, loop, f, grad_x, saved, grad_y);
  }
}

template <class T>
void launch_binary(const device::CudaStream& stream, const MapLoop& loop, Binary op, const T* a,
                   const T* b, T* out) {
  map(stream, loop, BinaryFunction{op}, out, a, b);
}

template <class T>
void launch_axpby(const device::CudaStream& stream, const MapLoop& loop, T alpha, const T* x,
                  T beta, T* out) {
  const Axpby<T> f{alpha, beta};
  if (beta == T(0)) {
    map(stream, loop, f, out, x);
  } else {
    map(stream, loop, f, out, x, static_cast<const T*>(out));
  }
}

template <class T>
void launch_multiply(const device::CudaStream& stream, const MapLoop& loop, T alpha, const T* a,
                     const T* b, T* out, bool accumulate) {
  const ScaledProduct<T> f{alpha};
  if (accumulate) {
    map(stream, loop, f, out, a, b, static_cast<const T*>(out));
  } else {
    map(stream, loop, f, out, a, b);
  }
}

#define LOCKSTEP_ELEMENTWISE(T)                                                                   \
  template void launch_unary(const device::CudaStream&, const MapLoop&, Unary, const T*, T*);     \
  template void launch_unary_backward(const device::CudaStream&, const MapLoop&, Unary, const T*, \
                                      const T*, T*, bool);                                        \
  template void launch_binary(const device::CudaStream&, const MapLoop&, Binary, const T*,        \
                              const T*, T*);                                                      \
  template void launch_axpby(const device::CudaStream&, const MapLoop&, T, const T*, T, T*);      \
  template void launch_multiply(const device::CudaStream&, const MapLoop&, T, const T*, const T*, \
                                T*, bool);
LOCKSTEP_ELEMENTWISE(float)
LOCKSTEP_ELEMENTWISE(double)
#undef LOCKSTEP_ELEMENTWISE

}  // namespace lockstep::kernels::cuda

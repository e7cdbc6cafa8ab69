#include <functional>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/functions.h"
#include "framework/kernels/cpu/loop.h"
#include "framework/kernels/dispatch.h"

namespace lockstep::kernels {
namespace {

// Calls f with the function object of `op`.
template <class F>
void visit_unary(Unary op, F&& f) {
  switch (op) {
    case Unary::negate:
      return f(Negate{});
    case Unary::relu:
      return f(Relu{});
    case Unary::gelu:
      return f(Gelu{});
    case Unary::gelu_tanh:
      return f(GeluTanh{});
    case Unary::tanh:
      return f(Tanh{});
    case Unary::sigmoid:
      return f(Sigmoid{});
    case Unary::exp:
      return f(Exp{});
    case Unary::log:
      return f(Log{});
    case Unary::sqrt:
      return f(Sqrt{});
    case Unary::square:
      return f(Square{});
  }
  __builtin_unreachable();
}

template <class F>
void visit_binary(Binary op, F&& f) {
  switch (op) {
    case Binary::add:
      return f(std::plus<>{});
    case Binary::subtract:
      return f(std::minus<>{});
    case Binary::multiply:
      return f(std::multiplies<>{});
    case Binary::divide:
      return f(std::divides<>{});
  }
  __builtin_unreachable();
}

}  // namespace

void CpuKernels::unary(Unary op, const Tensor& x, const Tensor& out) const {
  visit_float("unary", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    visit_unary(op, [&](auto f) {
      transform<T, T>(
          out, [f](T v) { return f(v); }, x);
    });
  });
}

void CpuKernels::unary_backward(Unary op, const Tensor& x, const Tensor& y, const Tensor& grad_y,
                                const Tensor& grad_x, bool accumulate) const {
  visit_float("unary_backward", grad_x.dtype(), [&]<class T>(base::TypeTag<T>) {
    const GradientFrom from = gradient_from(op);
    const Tensor& saved = from == GradientFrom::input    ? x
                          : from == GradientFrom::output ? y
                                                         : grad_y;
    visit_unary(op, [&](auto f) {
      if (accumulate) {
        transform<T, T>(
            grad_x, [f](T v, T g, T sum) { return sum + f.backward(v, g); }, saved, grad_y, grad_x);
      } else {
        transform<T, T>(
            grad_x, [f](T v, T g) { return f.backward(v, g); }, saved, grad_y);
      }
    });
  });
}

void CpuKernels::binary(Binary op, const Tensor& a, const Tensor& b, const Tensor& out) const {
  visit_float("binary", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    visit_binary(op, [&](auto f) {
      transform<T, T>(
          out, [f](T u, T v) -> T { return f(u, v); }, a, b);
    });
  });
}

void CpuKernels::axpby(double alpha, const Tensor& x, double beta, const Tensor& out) const {
  visit_float("axpby", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T a = static_cast<T>(alpha), b = static_cast<T>(beta);
    if (beta == 0) {
      transform<T, T>(
          out, [a](T v) { return a * v; }, x);
    } else {
      transform<T, T>(
          out, [a, b](T v, T o) { return a * v + b * o; }, x, out);
    }
  });
}

}  // namespace lockstep::kernels

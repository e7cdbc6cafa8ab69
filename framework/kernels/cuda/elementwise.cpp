#include "framework/kernels/cuda/elementwise.h"

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/dispatch.h"

namespace lockstep::kernels::cuda {

void CudaKernels::unary(Unary op, const Tensor& x, const Tensor& out) const {
  const MapLoop loop = plan_map(out, x);
  visit_float("unary", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_unary<T>(stream_of(out), loop, op, x.data<T>(), out.data<T>());
  });
}

void CudaKernels::unary_backward(Unary op, const Tensor& x, const Tensor& y, const Tensor& grad_y,
                                 const Tensor& grad_x, bool accumulate) const {
  const GradientFrom from = gradient_from(op);
  const Tensor& saved = from == GradientFrom::input ? x : from == GradientFrom::output ? y : grad_y;
  const MapLoop loop =
      accumulate ? plan_map(grad_x, saved, grad_y, grad_x) : plan_map(grad_x, saved, grad_y);
  visit_float("unary_backward", grad_x.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_unary_backward<T>(stream_of(grad_x), loop, op, saved.data<T>(), grad_y.data<T>(),
                             grad_x.data<T>(), accumulate);
  });
}

void CudaKernels::binary(Binary op, const Tensor& a, const Tensor& b, const Tensor& out) const {
  const MapLoop loop = plan_map(out, a, b);
  visit_float("binary", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_binary<T>(stream_of(out), loop, op, a.data<T>(), b.data<T>(), out.data<T>());
  });
}

void CudaKernels::axpby(double alpha, const Tensor& x, double beta, const Tensor& out) const {
  const MapLoop loop = beta == 0 ? plan_map(out, x) : plan_map(out, x, out);
  visit_float("axpby", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_axpby<T>(stream_of(out), loop, static_cast<T>(alpha), x.data<T>(), static_cast<T>(beta),
                    out.data<T>());
  });
}

}  // namespace lockstep::kernels::cuda

#include "framework/kernels/cuda/softmax.h"

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/dispatch.h"

namespace lockstep::kernels::cuda {
namespace {

// Checked rows of an output and inputs of its shape.
std::int64_t checked_rows(std::string_view kernel, const Tensor& in, const Tensor& out) {
  require_rank(kernel, "the input", in, 1);
  require_shape(kernel, "the output", out, in.shape());
  require_contiguous(kernel, "the output", out);
  return out.count() == 0 ? 0 : out.count() / out.shape().back();
}

}  // namespace

void CudaKernels::softmax(const Tensor& x, const Tensor& y) const {
  const std::int64_t rows = checked_rows("softmax", x, y);
  const Tensor in = contiguous_on_device(x);
  visit_float("softmax", y.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_softmax<T>(stream_of(y), rows, y.shape().back(), in.data<T>(), y.data<T>());
  });
}

void CudaKernels::log_softmax(const Tensor& x, const Tensor& y) const {
  const std::int64_t rows = checked_rows("log_softmax", x, y);
  const Tensor in = contiguous_on_device(x);
  visit_float("log_softmax", y.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_log_softmax<T>(stream_of(y), rows, y.shape().back(), in.data<T>(), y.data<T>());
  });
}

void CudaKernels::softmax_backward(const Tensor& y, const Tensor& grad_y, const Tensor& grad_x,
                                   bool accumulate) const {
  const std::int64_t rows = checked_rows("softmax_backward", y, grad_x);
  require_shape("softmax_backward", "grad_y", grad_y, y.shape());
  const Tensor values = contiguous_on_device(y), grad = contiguous_on_device(grad_y);
  visit_float("softmax_backward", grad_x.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_softmax_backward<T>(stream_of(grad_x), rows, y.shape().back(), values.data<T>(),
                               grad.data<T>(), grad_x.data<T>(), accumulate);
  });
}

void CudaKernels::log_softmax_backward(const Tensor& y, const Tensor& grad_y, const Tensor& grad_x,
                                       bool accumulate) const {
  const std::int64_t rows = checked_rows("log_softmax_backward", y, grad_x);
  require_shape("log_softmax_backward", "grad_y", grad_y, y.shape());
  const Tensor values = contiguous_on_device(y), grad = contiguous_on_device(grad_y);
  visit_float("log_softmax_backward", grad_x.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_log_softmax_backward<T>(stream_of(grad_x), rows, y.shape().back(), values.data<T>(),
                                   grad.data<T>(), grad_x.data<T>(), accumulate);
  });
}

}  // namespace lockstep::kernels::cuda

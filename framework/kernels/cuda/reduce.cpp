#include "framework/kernels/cuda/reduce.h"

#include <algorithm>

#include "framework/base/division.h"
#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/update_operands.h"

namespace lockstep::kernels::cuda {
namespace {

using base::ceil_div;

// How far apart neighbours along an axis are in the inputs; least for the densest.
std::int64_t input_stride(const Axis& axis) {
  return axis.stride[1] + axis.stride[2];
}

SumPlan plan_sum(const Tensor& out, const Tensor& a, const Tensor* b, const Shape& shape) {
  SumAxes axes = sum_axes(out, a, b, shape);
  for (Axes* const group : {&axes.kept, &axes.summed}) {
    group->sort(input_stride);
    group->merge();
  }
  const Axis kept = axes.kept.innermost(), summed = axes.summed.innermost();
  SumPlan plan;
  plan.columns =
      kept.extent > 1 && (summed.extent <= 1 || input_stride(kept) < input_stride(summed));
  plan.summed_flat = axes.summed.rank() <= 1 && (summed.extent <= 1 || summed.stride[1] == 1) &&
                     (b == nullptr || summed.extent <= 1 || summed.stride[2] == 1);
  plan.summed = space_of(axes.summed);
  if (plan.columns) {
    plan.across = kept.extent;
    std::copy(kept.stride.begin(), kept.stride.end(), plan.across_stride);
    axes.kept.pop();
  }
  plan.outputs = space_of(axes.kept);
  plan.part_length = plan.columns ? rows_of_a_part : terms_of_a_part;
  plan.parts = std::max<std::int64_t>(1, ceil_div(plan.summed.count, plan.part_length));
  return plan;
}

template <class T>
void run_sum(const SumPlan& plan, double alpha, const Tensor& a, const Tensor* b, const Tensor& out,
             bool accumulate) {
  const Tensor parts =
      plan.parts == 1
          ? Tensor{}
          : Tensor::empty(out.context(), {plan.parts * plan.output_count()}, DType::float64);
  launch_sum<T>(stream_of(out), plan, alpha, a.data<T>(), b ? b->data<T>() : nullptr, out.data<T>(),
                accumulate, parts.defined() ? parts.data<double>() : nullptr);
}

}  // namespace

void CudaKernels::sum_to(double alpha, const Tensor& x, const Tensor& out, bool accumulate) const {
  const SumPlan plan = plan_sum(out, x, nullptr, x.shape());
  visit_float("sum_to", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    run_sum<T>(plan, alpha, x, nullptr, out, accumulate);
  });
}

void CudaKernels::multiply_sum_to(double alpha, const Tensor& a, const Tensor& b, const Tensor& out,
                                  bool accumulate) const {
  const Shape shape = base::broadcast(a.shape(), b.shape());
  visit_float("multiply_sum_to", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    if (out.shape() == shape) {
      launch_multiply<T>(
          stream_of(out), accumulate ? plan_map(out, a, b, out) : plan_map(out, a, b),
          static_cast<T>(alpha), a.data<T>(), b.data<T>(), out.data<T>(), accumulate);
    } else {
      run_sum<T>(plan_sum(out, a, &b, shape), alpha, a, &b, out, accumulate);
    }
  });
}

void CudaKernels::sum_of_squares(const Tensor& x, const Tensor& sum) const {
  require_contiguous("sum_of_squares", "x", x);
  require_operand("sum_of_squares", "sum", sum, {1}, DType::float64);
  const Tensor parts =
      Tensor::empty(x.context(), {ceil_div(x.count(), terms_of_a_part)}, DType::float64);
  visit_float("sum_of_squares", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_sum_of_squares<T>(stream_of(x), x.count(), x.data<T>(), parts.data<double>(),
                             sum.data<double>());
  });
}

void CudaKernels::find_nonfinite(const Tensor& x, const Tensor& flag) const {
  require_contiguous("find_nonfinite", "x", x);
  require_operand("find_nonfinite", "flag", flag, {1}, DType::int32);
  visit_float("find_nonfinite", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_find_nonfinite<T>(stream_of(x), x.count(), x.data<T>(), flag.data<std::int32_t>());
  });
}

void CudaKernels::clip_factor(const Tensor& squares, const Tensor& scale, double limit,
                              const Tensor& factor, const Tensor& flag) const {
  require_clip_factor(squares, scale, factor, flag);
  launch_clip_factor(stream_of(squares), squares.count(), squares.data<double>(),
                     scale.data<double>(), limit, factor.data<double>(), flag.data<std::int32_t>());
}

}  // namespace lockstep::kernels::cuda

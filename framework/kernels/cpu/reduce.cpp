// sum_to and multiply_sum_to.
//
// The axes fall into two groups, those the output keeps and those summed over. The loop's innermost
// axis is the one that is densest in memory: if it is summed, each output is a sum of runs (rows);
// if it is kept, runs of up to `column_strip` neighbouring outputs are summed side by side
// (columns). Where few outputs are sums of many elements, the summed space is cut into blocks by
// its size, whose partial sums are added in order. Partial sums are double throughout, except over
// short runs in the column form.
#include "framework/kernels/cpu/reduce.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/loop.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/update_operands.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t row_run = 16384;          // elements of a row taken at a time
constexpr std::int64_t block_size = 256 * 1024;  // elements of a block of the summed space
constexpr std::int64_t few_outputs = 32;

// How dense an axis is in the inputs; 1 for the densest.
std::int64_t input_stride(const Axis& axis) {
  return axis.stride[1] + axis.stride[2];
}

// One group of axes, the densest apart.
struct Group {
  Axes outer;
  Axis inner;

  void arrange() {
    outer.sort(input_stride);
    outer.merge();
    inner = outer.pop();
  }
};

// The cut of a sum into units (outputs summed together) and blocks of runs. Operand 0 is the
// output.
struct Plan {
  Group kept, summed;
  bool columns = false;
  std::int64_t width = 1;  // outputs of a unit
  std::int64_t units = 0;
  std::int64_t run = 1;   // elements along the innermost summed axis taken at a time
  std::int64_t runs = 0;  // in the whole summed space
  std::int64_t runs_per_block = 1;
  std::int64_t blocks = 1;

  Plan(const Tensor& out, const Tensor& a, const Tensor* b, const Shape& shape);
  std::int64_t units_per_row() const { return ceil_div(kept.inner.extent, width); }
  std::int64_t runs_per_row() const { return ceil_div(summed.inner.extent, run); }
};

Plan::Plan(const Tensor& out, const Tensor& a, const Tensor* b, const Shape& shape) {
  const SumAxes axes = sum_axes(out, a, b, shape);
  kept.outer = axes.kept;
  summed.outer = axes.summed;
  kept.arrange();
  summed.arrange();
  columns = kept.inner.extent > 1 &&
            (summed.inner.extent <= 1 || input_stride(kept.inner) < input_stride(summed.inner));
  width = columns ? std::min(column_strip, kept.inner.extent) : 1;
  units = kept.outer.count() * units_per_row();
  run = std::clamp<std::int64_t>(summed.inner.extent, 1, columns ? column_run : row_run);
  runs = summed.outer.count() * runs_per_row();
  runs_per_block =
      units < few_outputs ? ceil_div(block_size, run * width) : std::max<std::int64_t>(1, runs);
  blocks = std::max<std::int64_t>(1, ceil_div(runs, runs_per_block));
}

// Sums of one unit over one block of runs.
template <class T, bool product>
class UnitSum {
 public:
  UnitSum(const Plan& plan, const T* a, const T* b) : plan_(plan), a_(a), b_(b) {}

  // Where the unit starts, and how many outputs it has.
  struct Place {
    Offsets at;
    std::int64_t outputs;
  };
  Place place(std::int64_t unit) const {
    const std::int64_t row = unit / plan_.units_per_row();
    const std::int64_t first = unit % plan_.units_per_row() * plan_.width;
    return {plan_.kept.outer.offsets(row) + first * plan_.kept.inner,
            std::min(plan_.width, plan_.kept.inner.extent - first)};
  }

  void operator()(const Place& place, std::int64_t block, double* sums) const {
    std::fill_n(sums, place.outputs, 0.0);
    const std::int64_t end = std::min((block + 1) * plan_.runs_per_block, plan_.runs);
    for (std::int64_t run = block * plan_.runs_per_block; run < end; ++run) {
      const std::int64_t row = run / plan_.runs_per_row();
      const std::int64_t first = run % plan_.runs_per_row() * plan_.run;
      const Offsets at = plan_.summed.outer.offsets(row) + first * plan_.summed.inner;
      const std::int64_t length = std::min(plan_.run, plan_.summed.inner.extent - first);
      const T* const a = a_ + place.at[1] + at[1];
      const T* const b = product ? b_ + place.at[2] + at[2] : nullptr;
      if (plan_.columns) {
        add_columns(a, b, length, place.outputs, sums);
      } else {
        sums[0] += sum_row(a, b, length);
      }
    }
  }

 private:
  double sum_row(const T* a, const T* b, std::int64_t n) const {
    const std::int64_t sa = plan_.summed.inner.stride[1], sb = plan_.summed.inner.stride[2];
    if constexpr (product) {
      if (sa == 1 && sb == 1) return lane_sum(n, [=](std::int64_t i) { return a[i] * b[i]; });
      return lane_sum(n, [=](std::int64_t i) { return a[i * sa] * b[i * sb]; });
    } else {
      if (sa == 1) return lane_sum(n, [=](std::int64_t i) { return a[i]; });
      return lane_sum(n, [=](std::int64_t i) { return a[i * sa]; });
    }
  }

  void add_columns(const T* a, const T* b, std::int64_t rows, std::int64_t outputs,
                   double* sums) const {
    const Axis& down = plan_.summed.inner;
    const Axis& across = plan_.kept.inner;
    T partial[column_strip] = {};
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* const a_row = a + row * down.stride[1];
      if constexpr (product) {
        transform_row(
            outputs, {1, 1, across.stride[1], across.stride[2]},
            [](T sum, T u, T v) { return sum + u * v; }, partial, static_cast<const T*>(partial),
            a_row, b + row * down.stride[2]);
      } else {
        transform_row(
            outputs, {1, 1, across.stride[1]}, [](T sum, T u) { return sum + u; }, partial,
            static_cast<const T*>(partial), a_row);
      }
    }
    for (std::int64_t i = 0; i < outputs; ++i) sums[i] += static_cast<double>(partial[i]);
  }

  const Plan& plan_;
  const T* a_;
  const T* b_;
};

template <class T, bool product>
void run_sum(const Plan& plan, double alpha, const Tensor& a, const Tensor* b, const Tensor& out,
             bool accumulate) {
  if (out.count() == 0) return;
  const UnitSum<T, product> unit_sum(plan, a.data<T>(), product ? b->data<T>() : nullptr);
  T* const to = out.data<T>();
  const std::int64_t stride = plan.kept.inner.stride[0];
  const auto store = [&](const auto& place, const double* sums) {
    T* const o = to + place.at[0];
    for (std::int64_t i = 0; i < place.outputs; ++i) {
      const T value = static_cast<T>(alpha * sums[i]);
      o[i * stride] = accumulate ? o[i * stride] + value : value;
    }
  };
  if (plan.blocks == 1) {
    for_row_blocks(out.context(), plan.units, plan.runs * plan.run * plan.width,
                   [&](std::int64_t begin, std::int64_t end) {
                     double sums[column_strip];
                     for (std::int64_t unit = begin; unit < end; ++unit) {
                       const auto place = unit_sum.place(unit);
                       unit_sum(place, 0, sums);
                       store(place, sums);
                     }
                   });
    return;
  }
  const Buffer memory(
      out.context().allocator(),
      static_cast<std::size_t>(plan.units * plan.blocks * plan.width) * sizeof(double));
  double* const partial = static_cast<double*>(memory.data());
  out.context().threads().for_each(plan.units * plan.blocks, [&](std::int64_t task) {
    unit_sum(unit_sum.place(task / plan.blocks), task % plan.blocks, partial + task * plan.width);
  });
  for (std::int64_t unit = 0; unit < plan.units; ++unit) {
    double* const sums = partial + unit * plan.blocks * plan.width;
    const auto place = unit_sum.place(unit);
    for (std::int64_t block = 1; block < plan.blocks; ++block) {
      for (std::int64_t i = 0; i < place.outputs; ++i) sums[i] += sums[block * plan.width + i];
    }
    store(place, sums);
  }
}

}  // namespace

void CpuKernels::sum_to(double alpha, const Tensor& x, const Tensor& out, bool accumulate) const {
  visit_float("sum_to", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    const Plan plan(out, x, nullptr, x.shape());
    run_sum<T, false>(plan, alpha, x, nullptr, out, accumulate);
  });
}

void CpuKernels::multiply_sum_to(double alpha, const Tensor& a, const Tensor& b, const Tensor& out,
                                 bool accumulate) const {
  const Shape shape = base::broadcast(a.shape(), b.shape());
  visit_float("multiply_sum_to", out.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T factor = static_cast<T>(alpha);
    if (out.shape() != shape) {
      const Plan plan(out, a, &b, shape);
      run_sum<T, true>(plan, alpha, a, &b, out, accumulate);
    } else if (accumulate) {
      transform<T, T>(
          out, [factor](T u, T v, T sum) { return sum + factor * (u * v); }, a, b, out);
    } else {
      transform<T, T>(
          out, [factor](T u, T v) { return factor * (u * v); }, a, b);
    }
  });
}

void CpuKernels::sum_of_squares(const Tensor& x, const Tensor& out) const {
  require_contiguous("sum_of_squares", "x", x);
  require_operand("sum_of_squares", "sum", out, {1}, DType::float64);
  visit_float("sum_of_squares", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T* const values = x.data<T>();
    const std::int64_t blocks = ceil_div(x.count(), elements_per_block);
    const Buffer memory(x.context().allocator(), static_cast<std::size_t>(blocks) * sizeof(double));
    double* const partial = static_cast<double*>(memory.data());
    for_blocks(x.context(), x.count(), elements_per_block,
               [&](std::int64_t begin, std::int64_t end) {
                 partial[begin / elements_per_block] = lane_sum(end - begin, [=](std::int64_t i) {
                   const auto v = static_cast<double>(values[begin + i]);
                   return v * v;
                 });
               });
    double sum = 0;
    for (std::int64_t block = 0; block < blocks; ++block) sum += partial[block];
    *out.data<double>() = sum;
  });
}

void CpuKernels::find_nonfinite(const Tensor& x, const Tensor& flag) const {
  require_contiguous("find_nonfinite", "x", x);
  require_operand("find_nonfinite", "flag", flag, {1}, DType::int32);
  visit_float("find_nonfinite", x.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T* const values = x.data<T>();
    std::atomic<bool> found{false};
    for_blocks(x.context(), x.count(), elements_per_block,
               [&](std::int64_t begin, std::int64_t end) {
                 // v - v is 0 for finite values and NaN for the others.
                 int bad = 0;
                 for (std::int64_t i = begin; i < end; ++i) bad |= values[i] - values[i] != T(0);
                 if (bad) found.store(true, std::memory_order_relaxed);
               });
    if (found) *flag.data<std::int32_t>() = 1;
  });
}

void CpuKernels::clip_factor(const Tensor& squares, const Tensor& scale, double limit,
                             const Tensor& factor, const Tensor& flag) const {
  require_clip_factor(squares, scale, factor, flag);
  double sum = 0;
  for (const double part : squares.elements<double>()) sum += part;
  if (!std::isfinite(sum)) *flag.data<std::int32_t>() = 1;
  const double scale_value = *scale.data<double>(), norm = std::sqrt(sum) * scale_value;
  *factor.data<double>() = scale_value * (norm > limit ? limit / norm : 1);
}

}  // namespace lockstep::kernels

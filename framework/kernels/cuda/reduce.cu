#include "framework/kernels/cuda/reduce.h"

#include "framework/kernels/cuda/columns.cuh"
#include "framework/kernels/cuda/parts.cuh"

namespace lockstep::kernels::cuda {
namespace {

template <class T, bool product>
__device__ double term(T a, T b) {
  return static_cast<double>(product ? a * b : a);
}

// A warp for each part of each output.
template <class T, bool product>
__global__ void sum_along_rows(SumPlan plan, bool aligned, const T* a, const T* b, Store<T> store,
                               double* parts) {
  const Team<1> team;
  const std::int64_t tasks = plan.outputs.count * plan.parts;
  for (std::int64_t task = team.first_row(); task < tasks; task += team.row_step()) {
    const std::int64_t part = task % plan.parts;
    const Places places = plan.outputs.places(task / plan.parts);
    const std::int64_t begin = part * plan.part_length;
    const std::int64_t left = plan.summed.count - begin;
    const std::int64_t length = left < plan.part_length ? left : plan.part_length;
    const T* const a_terms = a + places.at[1];
    const T* const b_terms = product ? b + places.at[2] : a_terms;
    double sum = 0;
    if (plan.summed_flat) {
      if constexpr (product) {
        team.visit(
            length, aligned, [&](std::int64_t, T u, T v) { sum += term<T, true>(u, v); },
            a_terms + begin, b_terms + begin);
      } else {
        team.visit(
            length, aligned, [&](std::int64_t, T u) { sum += term<T, false>(u, u); },
            a_terms + begin);
      }
    } else {
      team.visit(length, false, [&](std::int64_t i) {
        const Places at = plan.summed.places(begin + i);
        sum += term<T, product>(a_terms[at.at[1]], b_terms[product ? at.at[2] : at.at[1]]);
      });
    }
    sum = team.sum(sum);
    if (team.lane() != 0) continue;
    if (plan.parts == 1) {
      store(places.at[0], sum);
    } else {
      parts[task] = sum;
    }
  }
}

template <class T, bool product>
struct ColumnTerm {
  SumPlan plan;
  const T* a;
  const T* b;
  __device__ double operator()(const Places& places, std::int64_t summed,
                               std::int64_t column) const {
    const Places at = plan.summed.places(summed);
    const auto place = [&](int operand) {
      return places.at[operand] + column * plan.across_stride[operand] + at.at[operand];
    };
    if constexpr (product) return term<T, true>(a[place(1)], b[place(2)]);
    return term<T, false>(a[place(1)], T(0));
  }
};

template <class T>
__global__ void square_parts(std::int64_t count, bool aligned, const T* x, double* parts) {
  for_parts(count, x,
            [&](const auto& team, std::int64_t part, std::int64_t length, const T* terms) {
              double sum = 0;
              team.visit(
                  length, aligned,
                  [&](std::int64_t, T value) {
                    const auto wide = static_cast<double>(value);
                    sum += wide * wide;
                  },
                  terms);
              sum = team.sum(sum);
              if (team.lane() == 0) parts[part] = sum;
            });
}

__global__ void add_all(std::int64_t count, const double* parts, double* out, bool accumulate) {
  const Team<warps_of_a_block> team;
  double sum = 0;
  team.visit(
      count, false, [&](std::int64_t, double part) { sum += part; }, parts);
  sum = team.sum(sum);
  if (threadIdx.x == 0) *out = (accumulate ? *out : 0) + sum;
}

template <class T>
__global__ void find_nonfinite(std::int64_t count, bool aligned, const T* x, std::int32_t* flag) {
  for_parts(count, x, [&](const auto& team, std::int64_t, std::int64_t length, const T* terms) {
    bool bad = false;
    team.visit(
        length, aligned,
        // v - v is 0 for finite values and NaN for the others.
        [&](std::int64_t, T value) { bad = bad || value - value != T(0); }, terms);
    if (__any_sync(device::full_warp, bad) && team.lane() == 0) atomicExch(flag, 1);
  });
}

// One thread, since the host adds in this order too and there is one term for each rank and bucket.
__global__ void find_clip_factor(std::int64_t count, const double* squares, const double* scale,
                                 double limit, double* factor, std::int32_t* flag) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += squares[i];
  if (sum - sum != 0) *flag = 1;
  const double norm = std::sqrt(sum) * *scale;
  *factor = *scale * (norm > limit ? limit / norm : 1);
}

template <class T, bool product>
void launch_parts(const device::CudaStream& stream, const SumPlan& plan, const T* a, const T* b,
                  const Store<T>& store, double* parts) {
  if (plan.columns) {
    launch_sum_down_columns(stream, plan, ColumnTerm<T, product>{plan, a, b}, store, parts);
  } else {
    // Rows of an odd length are aligned for the first output only.
    const bool aligned =
        plan.summed_flat && plan.outputs.count == 1 && is_aligned(a) && (!product || is_aligned(b));
    device::launch(
        stream, {blocks_for(plan.outputs.count * plan.parts, Team<1>::of_a_block), block_threads},
        sum_along_rows<T, product>, plan, aligned, a, b, store, parts);
    launch_add_parts(stream, plan, store, parts);
  }
}

}  // namespace

template <class T>
void launch_sum(const device::CudaStream& stream, const SumPlan& plan, double alpha, const T* a,
                const T* b, T* out, bool accumulate, double* parts) {
  if (plan.output_count() == 0) return;
  const Store<T> store{alpha, accumulate, out};
  if (b == nullptr) {
    launch_parts<T, false>(stream, plan, a, b, store, parts);
  } else {
    launch_parts<T, true>(stream, plan, a, b, store, parts);
  }
}

template <class T>
void launch_sum_of_squares(const device::CudaStream& stream, std::int64_t count, const T* x,
                           double* parts, double* out) {
  if (count > 0) {
    device::launch(stream, {blocks_for_parts(count), block_threads}, square_parts<T>, count,
                   is_aligned(x), x, parts);
  }
  launch_add_all(stream, parts_of(count), parts, out, false);
}

void launch_add_all(const device::CudaStream& stream, std::int64_t count, const double* parts,
                    double* out, bool accumulate) {
  device::launch(stream, {1, block_threads}, add_all, count, parts, out, accumulate);
}

template <class T>
void launch_find_nonfinite(const device::CudaStream& stream, std::int64_t count, const T* x,
                           std::int32_t* flag) {
  if (count == 0) return;
  device::launch(stream, {blocks_for_parts(count), block_threads}, find_nonfinite<T>, count,
                 is_aligned(x), x, flag);
}

void launch_clip_factor(const device::CudaStream& stream, std::int64_t count, const double* squares,
                        const double* scale, double limit, double* factor, std::int32_t* flag) {
  device::launch(stream, {1, 1}, find_clip_factor, count, squares, scale, limit, factor, flag);
}

#define LOCKSTEP_REDUCE(T)                                                                        \
  template void launch_sum(const device::CudaStream&, const SumPlan&, double, const T*, const T*, \
                           T*, bool, double*);                                                    \
  template void launch_sum_of_squares(const device::CudaStream&, std::int64_t, const T*, double*, \
                                      double*);                                                   \
  template void launch_find_nonfinite(const device::CudaStream&, std::int64_t, const T*,          \
                                      std::int32_t*);
LOCKSTEP_REDUCE(float)
LOCKSTEP_REDUCE(double)
#undef LOCKSTEP_REDUCE

}  // namespace lockstep::kernels::cuda

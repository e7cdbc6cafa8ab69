// Sums down columns, and the second stage of sums that were cut into parts.
#pragma once

#include "framework/base/division.h"
#include "framework/kernels/cuda/reduce.h"
#include "framework/kernels/cuda/team.cuh"

namespace lockstep::kernels::cuda {

inline constexpr int columns_of_a_block = device::warp_size;
inline constexpr int row_lanes = static_cast<int>(block_threads) / columns_of_a_block;

// out (+)= alpha * sum; nothing where `out` is nullptr.
template <class T>
struct Store {
  double alpha;
  bool accumulate;
  T* out;
  __device__ void operator()(std::int64_t at, double sum) const {
    if (out == nullptr) return;
    const T value = static_cast<T>(alpha * sum);
    out[at] = accumulate ? out[at] + value : value;
  }
};

// A block for each part of columns_of_a_block neighbouring outputs. term(places of the outputs'
// row, summed index, column) is called once for each term.
template <class T, class Term>
__global__ void sum_down_columns(SumPlan plan, Term term, Store<T> store, double* parts) {
  LOCKSTEP_SHARED(lane_sums, double[row_lanes][columns_of_a_block]);
  const std::int64_t strips = base::ceil_div(plan.across, columns_of_a_block);
  const std::int64_t tasks = plan.outputs.count * strips * plan.parts;
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const std::int64_t part = task % plan.parts;
    const std::int64_t row = task / plan.parts / strips;
    const std::int64_t column = task / plan.parts % strips * columns_of_a_block + threadIdx.x;
    const bool inside = column < plan.across;
    const Places places = plan.outputs.places(row);
    double sum = 0;
    if (inside) {
      const std::int64_t begin = part * plan.part_length;
      const std::int64_t left = plan.summed.count - begin;
      const std::int64_t end = begin + (left < plan.part_length ? left : plan.part_length);
      for (std::int64_t i = begin + threadIdx.y; i < end; i += row_lanes) {
        sum += term(places, i, column);
      }
    }
    lane_sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && inside) {
      for (int lane = 1; lane < row_lanes; ++lane) sum += lane_sums[lane][threadIdx.x];
      if (plan.parts == 1) {
        store(places.at[0] + column * plan.across_stride[0], sum);
      } else {
        parts[(row * plan.across + column) * plan.parts + part] = sum;
      }
    }
    __syncthreads();
  }
}

// A warp for each output adds its parts.
template <class T>
__global__ void add_parts(SumPlan plan, const double* parts, Store<T> store) {
  const Team<1> team;
  const std::int64_t outputs = plan.outputs.count * plan.across;
  for (std::int64_t output = team.first_row(); output < outputs; output += team.row_step()) {
    double sum = 0;
    team.visit(
        plan.parts, false, [&](std::int64_t, double part) { sum += part; },
        parts + output * plan.parts);
    sum = team.sum(sum);
    if (team.lane() != 0) continue;
    const std::int64_t row = output / plan.across;
    const std::int64_t column = output % plan.across;
    store(plan.outputs.places(row).at[0] + column * plan.across_stride[0], sum);
  }
}

template <class T>
void launch_add_parts(const device::CudaStream& stream, const SumPlan& plan, const Store<T>& store,
                      const double* parts) {
  if (plan.parts == 1) return;
  device::launch(stream, {blocks_for(plan.output_count(), Team<1>::of_a_block), block_threads},
                 add_parts<T>, plan, parts, store);
}

template <class T, class Term>
void launch_sum_down_columns(const device::CudaStream& stream, const SumPlan& plan, Term term,
                             const Store<T>& store, double* parts) {
  const std::int64_t strips = base::ceil_div(plan.across, columns_of_a_block);
  const unsigned blocks = blocks_for(plan.outputs.count * strips * plan.parts, 1);
  device::launch(stream, {blocks, dim3(columns_of_a_block, row_lanes)}, sum_down_columns<T, Term>,
                 plan, term, store, parts);
  launch_add_parts(stream, plan, store, parts);
}

}  // namespace lockstep::kernels::cuda

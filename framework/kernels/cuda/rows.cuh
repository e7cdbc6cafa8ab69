// Launches of kernels that work row by row.
#pragma once

#include <cmath>
#include <limits>

#include "framework/kernels/cuda/team.cuh"

namespace lockstep::kernels::cuda {

// The rows of contiguous matrices of one shape.
struct Rows {
  std::int64_t rows = 0, length = 0;
  bool aligned = false;  // every row of every operand starts at a multiple of 16 bytes
};

template <class... T>
Rows rows_of(std::int64_t rows, std::int64_t length, const T*... operand) {
  const bool aligned = ((reinterpret_cast<std::uintptr_t>(operand) % 16 == 0 &&
                         static_cast<std::size_t>(length) * sizeof(T) % 16 == 0) &&
                        ...);
  return {rows, length, aligned};
}

// f(team, row) for each row.
template <int warps, class F>
__global__ void for_rows(std::int64_t rows, F f) {
  const Team<warps> team;
  for (std::int64_t row = Team<warps>::first_row(); row < rows; row += Team<warps>::row_step()) {
    f(team, row);
  }
}

template <class F>
void launch_rows(const device::CudaStream& stream, const Rows& rows, F f) {
  if (rows.rows == 0) return;
  if (rows.length <= longest_row_of_a_warp) {
    device::launch(stream, {blocks_for_rows<1>(rows.rows), block_threads}, for_rows<1, F>,
                   rows.rows, f);
  } else {
    device::launch(stream, {blocks_for_rows<warps_of_a_block>(rows.rows), block_threads},
                   for_rows<warps_of_a_block, F>, rows.rows, f);
  }
}

// The largest element of a row; NaN is left out.
template <int warps, class T>
__device__ T largest_of(const Team<warps>& team, const Rows& rows, const T* row) {
  T largest = -std::numeric_limits<T>::infinity();
  team.visit(
      rows.length, rows.aligned, [&](std::int64_t, T x) { largest = x > largest ? x : largest; },
      row);
  return team.largest(largest);
}

// Sum of e^(x - shift) over a row, in double.
template <int warps, class T>
__device__ double sum_of_exponentials(const Team<warps>& team, const Rows& rows, const T* row,
                                      T shift) {
  double sum = 0;
  team.visit(
      rows.length, rows.aligned,
      [&](std::int64_t, T x) { sum += static_cast<double>(std::exp(x - shift)); }, row);
  return team.sum(sum);
}

}  // namespace lockstep::kernels::cuda

// Launchers of embeddings; everything contiguous, rows of float or double.
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/noted_error.h"

namespace lockstep::kernels::cuda {

// out[position] = table[indices[position]] for each of `positions`. Where an index is none of the
// table's rows, `out` stays as it is there and *first_bad becomes at most the position.
template <class T>
void launch_gather_rows(const device::CudaStream& stream, std::int64_t positions,
                        std::int64_t table_rows, std::int64_t width, const T* table,
                        const std::int64_t* indices, T* out, unsigned long long* first_bad);

// Notes the index at *first_bad, unless that is the largest value, and sets it to that.
void launch_note_bad_index(const device::CudaStream& stream, std::int64_t rows,
                           const std::int64_t* indices, unsigned long long* first_bad,
                           NotedError* noted);

// Kernels::group_positions.
struct PositionsByRow {
  std::int64_t positions = 0, rows = 0;
  const std::int64_t* indices = nullptr;
  std::int64_t* starts = nullptr;  // rows + 1
  std::int64_t* order = nullptr;
};
inline constexpr std::int64_t positions_of_a_block = 2048;
int passes_of_sort(std::int64_t rows);
std::int64_t counts_of_sort(std::int64_t positions);
// `counts` has room for counts_of_sort(positions); `scratch` for as many as `order`, and may be
// nullptr where there is one pass. *first_bad as above.
void launch_group_positions(const device::CudaStream& stream, const PositionsByRow& groups,
                            std::int64_t* counts, std::int64_t* scratch,
                            unsigned long long* first_bad);

// out[r] (+)= the sum of x[order[k]], k from starts[r] to starts[r + 1] - 1.
template <class T>
void launch_sum_row_groups(const device::CudaStream& stream, std::int64_t rows, std::int64_t width,
                           const T* x, const std::int64_t* starts, const std::int64_t* order,
                           T* out, bool accumulate);

}  // namespace lockstep::kernels::cuda

// Launchers of embeddings; everything contiguous, rows of float or double.
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/noted_error.h"

namespace lockstep::kernels::cuda {

// Where no index was bad.
inline constexpr unsigned long long no_position = ~0ull;

// out[position] = table[indices[position]] for each of `positions`. Where an index is none of the
// table's rows, `out` stays as it is there and *first_bad becomes at most the position.
template <class T>
void launch_gather_rows(const device::CudaStream& stream, std::int64_t positions,
                        std::int64_t table_rows, std::int64_t width, const T* table,
                        const std::int64_t* indices, T* out, unsigned long long* first_bad);

// Notes the index at *first_bad, unless that is no_position, and sets it to that.
void launch_note_bad_index(const device::CudaStream& stream, std::int64_t rows,
                           const std::int64_t* indices, unsigned long long* first_bad,
                           NotedError* noted);

// out[r] (+)= the sum of x[order[k]], k from starts[r] to starts[r + 1] - 1.
template <class T>
void launch_sum_row_groups(const device::CudaStream& stream, std::int64_t rows, std::int64_t width,
                           const T* x, const std::int64_t* starts, const std::int64_t* order,
                           T* out, bool accumulate);

}  // namespace lockstep::kernels::cuda

// Launchers of embeddings; everything contiguous, rows of float or double.
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::kernels::cuda {

// out[position] = table[indices[position]] for each of `positions`. *first_bad, which starts at the
// largest value, becomes the first position whose index is none of the table's rows.
template <class T>
void launch_gather_rows(const device::CudaStream& stream, std::int64_t positions,
                        std::int64_t table_rows, std::int64_t width, const T* table,
                        const std::int64_t* indices, T* out, unsigned long long* first_bad);

// out[r] (+)= the sum of x[order[k]], k from starts[r] to starts[r + 1] - 1.
template <class T>
void launch_sum_row_groups(const device::CudaStream& stream, std::int64_t rows, std::int64_t width,
                           const T* x, const std::int64_t* starts, const std::int64_t* order,
                           T* out, bool accumulate);

}  // namespace lockstep::kernels::cuda

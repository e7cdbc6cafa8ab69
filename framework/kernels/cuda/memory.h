// Launchers that fill, copy and convert.
#pragma once

#include <cstddef>
#include <span>

#include "framework/base/dtype.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/operands.h"

namespace lockstep::kernels::cuda {

// Bits is an unsigned integer as wide as the element: 1, 2, 4 or 8 bytes.
template <class Bits>
void launch_fill(const device::CudaStream& stream, const MapLoop& loop, Bits value, Bits* out);
template <class Bits>
void launch_copy(const device::CudaStream& stream, const MapLoop& loop, const Bits* x, Bits* out);

// out[r, c] = x[r, c] for matrices in which neighbours along a row are neighbours in `out`, and
// neighbours along a column are neighbours in `x`; strides in elements. `batch` gives the places of
// the first elements of the matrices.
struct TransposedMatrices {
  std::int64_t rows = 0, columns = 0;
  std::int64_t out_row_stride = 0, x_column_stride = 0;
  Space batch;
};
template <class Bits>
void launch_transposed_copy(const device::CudaStream& stream, const TransposedMatrices& matrices,
                            const Bits* x, Bits* out);

// At most most_stored_bytes of them, which are an argument of the kernel: they are taken
// when this returns, and no memory has to stay as it is until a copy is done.
void launch_store(const device::CudaStream& stream, std::span<const std::byte> bytes, void* out);

void launch_convert(const device::CudaStream& stream, const MapLoop& loop, DType from,
                    const void* x, DType to, void* out);

}  // namespace lockstep::kernels::cuda

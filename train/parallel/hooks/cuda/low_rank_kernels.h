// Launchers of power_sgd, beside cuBLAS. T is float or double. Of a factor [n, rank] each of the
// `rank` vectors of n elements is contiguous, one behind the other.
#pragma once

#include <cstdint>
#include <span>

#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::train {

// y[i] += factor * x[i]: moves 3 * count elements.
template <class T>
void launch_add_multiple(const device::CudaStream& stream, T factor, const T* x, std::int64_t count,
                         T* y);

// One factor among several in a range: from its first element, vectors of `length` elements.
struct VectorSet {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

// Orthonormalises the vectors of each set among themselves, as low_rank.h does on the CPU, a block
// for each set: sums are double, in an order that the length alone decides. What takes the place of
// a vector that depends on those before it is the one at its place in `drawn`; without `drawn`
// (nullptr), zero.
//
// Reads vector j of a set 4 j + 3 times, of which caches serve all but the first.
template <class T>
void launch_orthonormalize(const device::CudaStream& stream, std::span<const VectorSet> sets,
                           int rank, T* vectors, const T* drawn);

// P [rows, rank] and Q [columns, rank].
template <class T>
struct LowRankFactors {
  std::int64_t rows, columns;
  int rank;
  const T* left;
  const T* right;
};

// out = addend + sign * P Q^T, row-major; addend may be `out`, and nullptr for zeros. An element is
// one chain of multiplications and additions along the rank, of the same bits on every device, the
// CPU included. Moves rows * columns elements out, and as many in with an addend.
template <class T>
void launch_add_product(const device::CudaStream& stream, const LowRankFactors<T>& factors, T sign,
                        const T* addend, T* out);

}  // namespace lockstep::train

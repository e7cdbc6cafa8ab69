#include "train/parallel/hooks/cuda/low_rank_kernels.h"

#include <algorithm>
#include <cmath>

#include "framework/base/division.h"
#include "framework/kernels/cuda/map.cuh"
#include "framework/kernels/cuda/parts.cuh"
#include "train/parallel/hooks/dependence.h"

namespace lockstep::train {
namespace {

using kernels::cuda::block_threads;
using kernels::cuda::Chunk;
using kernels::cuda::row_chunk;

template <class T>
struct AddMultiple {
  T factor;
  __device__ T operator()(T x, T y) const { return y + factor * x; }
};

// --- Orthonormal vectors, a block for each set

using Block = kernels::cuda::Team<kernels::cuda::warps_of_a_block>;

// Sets of one launch, by value: there is no memory to keep until it has run.
constexpr std::size_t most_sets = 64;
struct VectorSets {
  VectorSet set[most_sets];
};

// A thread has the same elements of every vector, whatever is done with them, so that threads meet
// in sums only.
template <class T>
struct Vectors {
  Block team;
  T* first;
  std::int64_t length;
  bool aligned;

  __device__ T* operator[](int j) const { return first + j * length; }
  __device__ double dot(const T* a, const T* b) const {
    double sum = 0;
    team.visit(
        length, aligned,
        [&](std::int64_t, T u, T v) { sum += static_cast<double>(u) * static_cast<double>(v); }, a,
        b);
    return team.sum(sum);
  }

  // Returns whether something was left of vector j, as on the CPU.
  __device__ bool orthonormalize(int j) const {
    T* const v = (*this)[j];
    const double before = std::sqrt(dot(v, v));
    for (int pass = 0; pass < 2; ++pass) {
      for (int i = 0; i < j; ++i) {
        const T* const u = (*this)[i];
        const T factor = static_cast<T>(-dot(u, v));
        team.transform(
            length, aligned, v, [&](std::int64_t, T x, T y) { return y + factor * x; }, u, v);
      }
    }
    const double left = std::sqrt(dot(v, v));
    // Written so that NaN is not taken for nothing.
    const bool depends = left <= dependent_share<T> * before;
    team.transform(
        length, aligned, v,
        [&](std::int64_t, T x) {
          return depends ? T(0) : static_cast<T>(static_cast<double>(x) / left);
        },
        v);
    return !depends;
  }
};

template <class T>
__global__ void orthonormalize(VectorSets sets, int rank, bool aligned, T* all, const T* drawn) {
  const VectorSet set = sets.set[blockIdx.x];
  const bool whole = aligned && (set.begin | set.length) % row_chunk == 0;
  const Vectors<T> vectors{{}, all + set.begin, set.length, whole};
  for (int j = 0; j < rank; ++j) {
    if (vectors.orthonormalize(j) || drawn == nullptr) continue;
    vectors.team.transform(
        set.length, whole, vectors[j], [](std::int64_t, T x) { return x; },
        drawn + set.begin + j * set.length);
    vectors.orthonormalize(j);
  }
}

// --- Products of two factors

// A thread has row_chunk columns of so many rows, for which it reads Q once.
constexpr int rows_of_a_task = 8;

template <class T>
__global__ void add_product(LowRankFactors<T> factors, T sign, bool aligned, const T* addend,
                            T* out) {
  const auto& [rows, columns, rank, left, right] = factors;
  const std::int64_t chunks = base::ceil_div(columns, row_chunk);
  const std::int64_t tasks = chunks * base::ceil_div(rows, rows_of_a_task);
  for (std::int64_t task = kernels::cuda::grid_thread(); task < tasks;
       task += kernels::cuda::grid_stride()) {
    const std::int64_t column = task % chunks * row_chunk, row = task / chunks * rows_of_a_task;
    const int width = columns - column < row_chunk ? static_cast<int>(columns - column) : row_chunk;
    const int height = rows - row < rows_of_a_task ? static_cast<int>(rows - row) : rows_of_a_task;
    const bool whole = aligned && width == row_chunk;
    Chunk<row_chunk, T> sums[rows_of_a_task] = {};
    for (int r = 0; r < rows_of_a_task; ++r) {
      if (addend != nullptr && r < height)
        sums[r] = kernels::cuda::load_part(addend + (row + r) * columns + column, width, whole);
    }
    for (int j = 0; j < rank; ++j) {
      const auto q = kernels::cuda::load_part(right + j * columns + column, width, whole);
#pragma unroll
      for (int r = 0; r < rows_of_a_task; ++r) {
        const T p = r < height ? sign * left[j * rows + row + r] : T(0);
#pragma unroll
        for (int i = 0; i < row_chunk; ++i) sums[r].lane[i] += p * q.lane[i];
      }
    }
#pragma unroll
    for (int r = 0; r < rows_of_a_task; ++r) {
      if (r < height)
        kernels::cuda::store_part(out + (row + r) * columns + column, sums[r], width, whole);
    }
  }
}

}  // namespace

template <class T>
void launch_add_multiple(const device::CudaStream& stream, T factor, const T* x, std::int64_t count,
                         T* y) {
  kernels::cuda::map(stream, {.count = count, .flat = true, .space = {}}, AddMultiple<T>{factor}, y,
                     x, static_cast<const T*>(y));
}

template <class T>
void launch_orthonormalize(const device::CudaStream& stream, std::span<const VectorSet> sets,
                           int rank, T* vectors, const T* drawn) {
  const bool aligned = kernels::cuda::is_aligned(vectors) && kernels::cuda::is_aligned(drawn);
  for (std::size_t first = 0; first < sets.size(); first += most_sets) {
    const std::size_t count = std::min(most_sets, sets.size() - first);
    VectorSets some;
    std::copy_n(sets.begin() + static_cast<std::ptrdiff_t>(first), count, some.set);
    device::launch(stream, {static_cast<unsigned>(count), block_threads}, orthonormalize<T>, some,
                   rank, aligned, vectors, drawn);
  }
}

template <class T>
void launch_add_product(const device::CudaStream& stream, const LowRankFactors<T>& factors, T sign,
                        const T* addend, T* out) {
  const std::int64_t tasks =
      base::ceil_div(factors.columns, row_chunk) * base::ceil_div(factors.rows, rows_of_a_task);
  const bool aligned = factors.columns % row_chunk == 0 &&
                       kernels::cuda::is_aligned(factors.right) &&
                       kernels::cuda::is_aligned(addend) && kernels::cuda::is_aligned(out);
  device::launch(stream, {kernels::cuda::blocks_for(tasks), block_threads}, add_product<T>, factors,
                 sign, aligned, addend, out);
}

#define INSTANTIATE_FOR(T)                                                                        \
  template void launch_add_multiple(const device::CudaStream&, T, const T*, std::int64_t, T*);    \
  template void launch_orthonormalize(const device::CudaStream&, std::span<const VectorSet>, int, \
                                      T*, const T*);                                              \
  template void launch_add_product(const device::CudaStream&, const LowRankFactors<T>&, T,        \
                                   const T*, T*)
INSTANTIATE_FOR(float);
INSTANTIATE_FOR(double);
#undef INSTANTIATE_FOR

}  // namespace lockstep::train

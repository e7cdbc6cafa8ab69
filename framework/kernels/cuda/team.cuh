// Threads that work on one row together: a warp, or a whole block where rows are long. What they
// compute does not depend on where the row stands or which block has it.
#pragma once

#include "framework/kernels/cuda/grid.cuh"

namespace lockstep::kernels::cuda {

// Rows up to this length go to a warp each.
inline constexpr std::int64_t longest_row_of_a_warp = 1024;
inline constexpr int warps_of_a_block = static_cast<int>(block_threads) / device::warp_size;

inline constexpr int row_chunk = 4;  // elements that a thread takes at a time

// `count` of them, by 16-byte accesses where all are there and aligned (`whole`).
template <class T>
__device__ Chunk<row_chunk, T> load_part(const T* from, int count, bool whole) {
  if (whole) return load_chunk<row_chunk>(from);
  Chunk<row_chunk, T> chunk{};
#pragma unroll
  for (int i = 0; i < row_chunk; ++i) {
    if (i < count) chunk.lane[i] = from[i];
  }
  return chunk;
}
template <class T>
__device__ void store_part(T* to, const Chunk<row_chunk, T>& chunk, int count, bool whole) {
  if (whole) return store_chunk(to, chunk);
#pragma unroll
  for (int i = 0; i < row_chunk; ++i) {
    if (i < count) to[i] = chunk.lane[i];
  }
}

// `warps` is 1 or warps_of_a_block.
template <int warps>
class Team {
 public:
  static constexpr int size = warps * device::warp_size;
  static constexpr int of_a_block = warps_of_a_block / warps;

  __device__ int lane() const { return static_cast<int>(threadIdx.x) % size; }
  __device__ static std::int64_t first_row() {
    return std::int64_t{blockIdx.x} * of_a_block + threadIdx.x / size;
  }
  __device__ static std::int64_t row_step() { return std::int64_t{gridDim.x} * of_a_block; }

  // combine(a, b) of all threads' values, the same bits in every thread. It must be commutative.
  template <class T, class Combine>
  __device__ T reduce(T value, Combine combine) const {
#pragma unroll
    for (int distance = device::warp_size / 2; distance > 0; distance /= 2) {
      value = combine(value, __shfl_xor_sync(device::full_warp, value, distance));
    }
    if constexpr (warps > 1) {
      LOCKSTEP_SHARED(of_warp, T[warps]);
      if (lane() % device::warp_size == 0) of_warp[lane() / device::warp_size] = value;
      __syncthreads();
      value = of_warp[0];
      for (int warp = 1; warp < warps; ++warp) value = combine(value, of_warp[warp]);
      __syncthreads();
    }
    return value;
  }
  __device__ double sum(double value) const {
    return reduce(value, [](double a, double b) { return a + b; });
  }
  // NaN is left out.
  template <class T>
  __device__ T largest(T value) const {
    return reduce(value, [](T a, T b) { return b > a || a != a ? b : a; });
  }

  // Calls body(i, row[i]...) for this thread's elements of a row. Which they are depends on the
  // length alone; `aligned` says that every row starts at a multiple of 16 bytes.
  template <class Body, class... In>
  __device__ void visit(std::int64_t length, bool aligned, Body body, const In*... row) const {
    for_chunks(length, [&](std::int64_t first, int count) {
      [[maybe_unused]] const bool whole = aligned && count == row_chunk;
      const auto each = [&](const auto&... chunk) {
#pragma unroll
        for (int i = 0; i < row_chunk; ++i) {
          if (i < count) body(first + i, chunk.lane[i]...);
        }
      };
      each(load_part(row + first, count, whole)...);
    });
  }

  // out[i] = f(i, row[i]...). `out` may be one of the rows.
  template <class Out, class F, class... In>
  __device__ void transform(std::int64_t length, bool aligned, Out* out, F f,
                            const In*... row) const {
    for_chunks(length, [&](std::int64_t first, int count) {
      [[maybe_unused]] const bool whole = aligned && count == row_chunk;
      Chunk<row_chunk, Out> result{};
      const auto each = [&](const auto&... chunk) {
#pragma unroll
        for (int i = 0; i < row_chunk; ++i) {
          if (i < count) result.lane[i] = f(first + i, chunk.lane[i]...);
        }
      };
      each(load_part(row + first, count, whole)...);
      store_part(out + first, result, count, whole);
    });
  }

 private:
  template <class Body>
  __device__ void for_chunks(std::int64_t length, Body body) const {
    constexpr std::int64_t step = std::int64_t{size} * row_chunk;
    for (std::int64_t first = std::int64_t{lane()} * row_chunk; first < length; first += step) {
      const std::int64_t left = length - first;
      body(first, left < row_chunk ? static_cast<int>(left) : row_chunk);
    }
  }
};

// Blocks for so many rows.
template <int warps>
unsigned blocks_for_rows(std::int64_t rows) {
  return blocks_for(rows, Team<warps>::of_a_block);
}

}  // namespace lockstep::kernels::cuda

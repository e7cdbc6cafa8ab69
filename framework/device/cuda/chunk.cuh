// Several neighbouring elements at a time, moved by 16-byte accesses where the address allows.
#pragma once

#include "framework/device/cuda/device.cuh"

namespace lockstep::device {

inline constexpr unsigned block_threads = 256;

// Enough blocks for `tasks` threads, within bounds that fill any device; a loop of grid_stride()
// does what is left. The number depends on the work alone.
inline unsigned blocks_for(std::int64_t tasks, unsigned threads = block_threads) {
  constexpr std::int64_t most = 4096;
  const std::int64_t wanted = (tasks + threads - 1) / threads;
  return static_cast<unsigned>(wanted < 1 ? 1 : wanted > most ? most : wanted);
}

__device__ inline std::int64_t grid_thread() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_stride() {
  return std::int64_t{gridDim.x} * blockDim.x;
}

template <int width, class T>
struct Chunk {
  T lane[width];
};

// `from` is aligned to 16 bytes, and width * sizeof(T) a multiple of 16.
template <int width, class T>
__device__ Chunk<width, T> load_chunk(const T* from) {
  using Vector = Vector16<T>;
  static_assert(width % Vector::size == 0);
  Chunk<width, T> chunk;
#pragma unroll
  for (int first = 0; first < width; first += Vector::size) {
    const Vector vector = load16(from + first);
#pragma unroll
    for (int i = 0; i < Vector::size; ++i) chunk.lane[first + i] = vector.lane[i];
  }
  return chunk;
}

template <int width, class T>
__device__ void store_chunk(T* to, const Chunk<width, T>& chunk) {
  using Vector = Vector16<T>;
  static_assert(width % Vector::size == 0);
#pragma unroll
  for (int first = 0; first < width; first += Vector::size) {
    Vector vector;
#pragma unroll
    for (int i = 0; i < Vector::size; ++i) vector.lane[i] = chunk.lane[first + i];
    store16(to + first, vector);
  }
}

// Elements before the first at which every operand is aligned to 16 bytes; `count` if there is no
// such place, and the whole range has to go element by element.
template <class... T>
std::int64_t unaligned_head(std::int64_t count, const T*... operand) {
  constexpr std::int64_t most = 16;  // elements of one byte in 16 bytes
  for (std::int64_t head = 0; head < most && head < count; ++head) {
    if (((reinterpret_cast<std::uintptr_t>(operand + head) % 16 == 0) && ...)) return head;
  }
  return count;
}

}  // namespace lockstep::device

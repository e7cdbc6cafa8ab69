// Elements by the vector and one by one: how a block moves and reduces them.
#pragma once

#include "comm/ring/cpu/reduce_operations.h"
#include "framework/device/cuda/chunk.cuh"
#include "framework/device/cuda/device.cuh"

namespace lockstep::comm::ring::cuda {

// The operation is looked at for each element: what these kernels wait for is the link.
template <class A>
__device__ A combine(ReduceOp op, A a, A b) {
  if (op == ReduceOp::max) return Max::apply(a, b);
  if (op == ReduceOp::min) return Min::apply(a, b);
  return Sum::apply(a, b);
}

// The last step of a reduction. `divisor` is the number of ranks for an average, otherwise 1.
template <class T>
__device__ T finish(Accumulator<T> value, int divisor) {
  if constexpr (!std::is_integral_v<T>) {
    if (divisor != 1) value = value / static_cast<Accumulator<T>>(divisor);
  }
  return static_cast<T>(value);
}

// `width` neighbours, of which several make 16 aligned bytes, or a single one.
template <int width, class T>
using Lanes = device::Chunk<width, T>;

template <int width, class T>
__device__ Lanes<width, T> load_lanes(const T* from) {
  if constexpr (width == 1) {
    return {{*from}};
  } else {
    return device::load_chunk<width>(from);
  }
}
template <int width, class T>
__device__ void store_lanes(T* to, const Lanes<width, T>& lanes) {
  if constexpr (width == 1) {
    *to = lanes.lane[0];
  } else {
    device::store_chunk(to, lanes);
  }
}

// store(i, load(i)) for i = 0, width, 2 width, ... below `count`, shared among the block's threads.
// Several loads are under way before the first store: the compiler could not know that they may.
template <int width, class Load, class Store>
__device__ void for_lanes(std::int64_t begin, std::int64_t end, Load&& load, Store&& store) {
  // As many as registers hold on all architectures, with partials of two and four times the size.
  constexpr int batch = width == 4 ? 4 : width == 2 || width == 8 ? 2 : 1;
  using Value = decltype(load(std::int64_t{}));
  const std::int64_t stride = std::int64_t{blockDim.x} * width;
  for (std::int64_t first = begin + std::int64_t{threadIdx.x} * width; first < end;
       first += batch * stride) {
    Value held[batch];
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      if (first + i * stride < end) held[i] = load(first + i * stride);
    }
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      if (first + i * stride < end) store(first + i * stride, held[i]);
    }
  }
}

// body(Width<w>{}, begin, end) for the part of `count` elements at `data` that goes by the vector,
// and for the rest of them, or all where the data is not aligned, one by one.
template <int w>
struct Width {
  static constexpr int value = w;
};
template <class T, class Body>
__device__ void by_width(const T* data, std::int64_t count, Body&& body) {
  constexpr int width = device::Vector16<T>::size;
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  const std::int64_t vectors = aligned ? count / width * width : 0;
  body(Width<width>{}, std::int64_t{0}, vectors);
  body(Width<1>{}, vectors, count);
}

// Copies elements; `slot` is aligned to 128 bytes, the other side as by_width() finds it.
template <class T>
__device__ void copy_to_slot(T* slot, const T* data, std::int64_t count) {
  by_width(data, count, [&]<int w>(Width<w>, std::int64_t begin, std::int64_t end) {
    for_lanes<w>(
        begin, end, [&](std::int64_t i) { return load_lanes<w>(data + i); },
        [&](std::int64_t i, const Lanes<w, T>& lanes) { store_lanes(slot + i, lanes); });
  });
}
template <class T>
__device__ void copy_from_slot(T* data, const T* slot, std::int64_t count) {
  by_width(data, count, [&]<int w>(Width<w>, std::int64_t begin, std::int64_t end) {
    for_lanes<w>(
        begin, end, [&](std::int64_t i) { return load_lanes<w>(slot + i); },
        [&](std::int64_t i, const Lanes<w, T>& lanes) { store_lanes(data + i, lanes); });
  });
}

}  // namespace lockstep::comm::ring::cuda

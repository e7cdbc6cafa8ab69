// Elements in groups of 16 bytes: how a block moves and reduces them.
#pragma once

#include "comm/ring/cpu/reduce_operations.h"
#include "framework/device/cuda/device.cuh"

namespace lockstep::comm::ring::cuda {

// What one 16-byte access of the data holds, and the same as partial results.
template <class T>
using Group = device::Vector16<T>;
template <class T>
struct alignas(16) Partial {
  Accumulator<T> lane[Group<T>::size];
};

// `count` elements that lie anywhere an element may.
template <class T>
struct Data {
  T* begin;
  std::int64_t count;
  bool aligned;  // to 16 bytes

  __device__ Data(T* first, std::int64_t elements)
      : begin(first),
        count(elements),
        aligned(reinterpret_cast<std::uintptr_t>(first) % sizeof(Group<T>) == 0) {}

  __device__ std::int64_t groups() const { return (count + Group<T>::size - 1) / Group<T>::size; }
  __device__ bool whole(std::int64_t group) const {
    return aligned && (group + 1) * Group<T>::size <= count;
  }
  // Lanes behind the last element hold 0.
  __device__ Group<T> load(std::int64_t group) const {
    if (whole(group)) return device::load16(begin + group * Group<T>::size);
    Group<T> result;
#pragma unroll
    for (int lane = 0; lane < Group<T>::size; ++lane) {
      const std::int64_t at = group * Group<T>::size + lane;
      result.lane[lane] = at < count ? begin[at] : T{};
    }
    return result;
  }
  __device__ void store(std::int64_t group, const Group<T>& value) const {
    if (whole(group)) return device::store16(begin + group * Group<T>::size, value);
#pragma unroll
    for (int lane = 0; lane < Group<T>::size; ++lane) {
      const std::int64_t at = group * Group<T>::size + lane;
      if (at < count) begin[at] = value.lane[lane];
    }
  }
};

// Groups and partials in a slot, which begins at a multiple of 128 bytes.
template <class Value>
__device__ Value load_from_slot(const std::byte* slot, std::int64_t group) {
  using Word = device::Vector16<std::uint64_t>;
  constexpr int words = static_cast<int>(sizeof(Value) / 16);
  const auto* const from = reinterpret_cast<const std::uint64_t*>(slot) + group * words * 2;
  Word held[words];
#pragma unroll
  for (int word = 0; word < words; ++word) held[word] = device::load16(from + word * 2);
  Value value;
  __builtin_memcpy(&value, held, sizeof(Value));
  return value;
}
template <class Value>
__device__ void store_in_slot(std::byte* slot, std::int64_t group, const Value& value) {
  using Word = device::Vector16<std::uint64_t>;
  constexpr int words = static_cast<int>(sizeof(Value) / 16);
  auto* const to = reinterpret_cast<std::uint64_t*>(slot) + group * words * 2;
  Word held[words];
  __builtin_memcpy(held, &value, sizeof(Value));
#pragma unroll
  for (int word = 0; word < words; ++word) device::store16(to + word * 2, held[word]);
}

template <class T>
__device__ Partial<T> widen(const Group<T>& group) {
  Partial<T> partial;
#pragma unroll
  for (int i = 0; i < Group<T>::size; ++i) {
    partial.lane[i] = static_cast<Accumulator<T>>(group.lane[i]);
  }
  return partial;
}

template <class Op, class T>
__device__ Partial<T> combine(const Partial<T>& partial, const Group<T>& own) {
  Partial<T> result;
#pragma unroll
  for (int i = 0; i < Group<T>::size; ++i) {
    result.lane[i] = Op::apply(partial.lane[i], static_cast<Accumulator<T>>(own.lane[i]));
  }
  return result;
}

// The last step of a reduction. `divisor` is the number of ranks for an average, otherwise 1.
template <class T>
__device__ T finish(Accumulator<T> value, int divisor) {
  if constexpr (!std::is_integral_v<T>) {
    if (divisor != 1) value = value / static_cast<Accumulator<T>>(divisor);
  }
  return static_cast<T>(value);
}
template <class T>
__device__ Group<T> finish(const Partial<T>& partial, int divisor) {
  Group<T> result;
#pragma unroll
  for (int i = 0; i < Group<T>::size; ++i) result.lane[i] = finish<T>(partial.lane[i], divisor);
  return result;
}

// store(group, load(group)) for each of `groups`, shared among the block's threads. Several loads
// are under way before the first store, which the compiler could not know to be allowed.
template <class Load, class Store>
__device__ void for_each_group(std::int64_t groups, Load&& load, Store&& store) {
  constexpr int batch = 4;
  using Value = decltype(load(std::int64_t{}));
  for (std::int64_t first = threadIdx.x; first < groups;
       first += std::int64_t{batch} * blockDim.x) {
    Value held[batch];
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const std::int64_t group = first + std::int64_t{i} * blockDim.x;
      if (group < groups) held[i] = load(group);
    }
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const std::int64_t group = first + std::int64_t{i} * blockDim.x;
      if (group < groups) store(group, held[i]);
    }
  }
}

}  // namespace lockstep::comm::ring::cuda

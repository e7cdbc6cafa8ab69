// How kernels see their operands: a space of indices that several tensors walk through together.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace lockstep::kernels::cuda {

inline constexpr int most_operands = 4;
inline constexpr int most_axes = 8;

// Where the operands stand, in elements from their first.
struct Places {
  std::int64_t at[most_operands];
};

// Axes, outermost first, and how far each operand goes in one step along them. Passed to kernels by
// value.
struct Space {
  std::int64_t count = 1;
  int rank = 0;
  std::int64_t extent[most_axes] = {};
  std::int64_t stride[most_axes][most_operands] = {};

  // At a row-major index into the axes. Divisions of 32 bits cost a quarter of those of 64.
  __device__ Places places(std::int64_t index) const {
    return count <= std::int64_t{0xFFFFFFFF} ? walk(static_cast<std::uint32_t>(index))
                                             : walk(static_cast<std::uint64_t>(index));
  }

 private:
  template <class Index>
  __device__ Places walk(Index index) const {
    Places places{};
    for (int axis = rank - 1; axis >= 0; --axis) {
      const Index wide = static_cast<Index>(extent[axis]);
      const auto step = static_cast<std::int64_t>(index % wide);
      index /= wide;
      for (int operand = 0; operand < most_operands; ++operand) {
        places.at[operand] += step * stride[axis][operand];
      }
    }
    return places;
  }
};

// An elementwise loop; operand 0 is the output. Flat where all operands are contiguous in the same
// order, so that an index is the place of every one.
struct MapLoop {
  std::int64_t count = 0;
  bool flat = false;
  Space space;
};

}  // namespace lockstep::kernels::cuda

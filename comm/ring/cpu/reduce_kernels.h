// The arithmetic of reductions on the CPU.
//
// A reduction runs in an accumulator type: float for bfloat16 and float16, the element type
// otherwise (integers as unsigned, so that sums wrap around). Pointers need the alignment of an
// element only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/communicator.h"

namespace lockstep::comm::ring {

// Reduces from[0], from[1], ... in this order and writes the result to each of `to`: avg divides by
// from.size(), and 16-bit floats are rounded once. A `to` may be one of the `from`. Each of them
// has `count` elements and is read or written once, all of them side by side: so many streams at a
// time are what keeps the memory busy (one after the other, in blocks that fit the cache, takes 1.3
// to 3 times as long).
void reduce_to_all(DType dtype, ReduceOp op, std::span<const std::byte* const> from,
                   std::span<std::byte* const> to, std::size_t count);

// The same in steps, for partial results that travel. For each dtype and op: load the first
// contribution, combine the next ones, finish into elements. `out` may be `acc` or `in`, but must
// not overlap them otherwise.
struct StepKernels {
  std::size_t element_bytes;
  std::size_t accumulator_bytes;  // of one element
  // acc[i] = in[i]
  void (*load)(void* acc, const void* in, std::size_t count);
  // out[i] = acc[i] op in[i]
  void (*combine)(void* out, const void* acc, const void* in, std::size_t count);
  // out[i] = acc[i], for avg acc[i] / ranks, rounded to the element type
  void (*finish)(void* out, const void* acc, std::size_t count, int ranks);
};

const StepKernels& step_kernels(DType dtype, ReduceOp op);

// The type that reductions of `dtype` run in.
DType accumulator_of(DType dtype);

}  // namespace lockstep::comm::ring

// The arithmetic of reductions on the CPU.
//
// A reduction runs in an accumulator type: float for bfloat16 and float16, the element type
// otherwise (integers as unsigned, so that sums wrap around). For one dtype and op the three
// kernels below compose into any algorithm: load the first contribution, combine the next ones,
// finish into elements. Pointers need the alignment of an element only. `out` may be `acc` or `in`,
// but must not overlap them otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/communicator.h"

namespace lockstep::comm::ring {

struct ReduceKernels {
  std::size_t element_bytes;
  std::size_t accumulator_bytes;  // of one element
  // acc[i] = in[i]
  void (*load)(void* acc, const void* in, std::size_t count);
  // out[i] = acc[i] op in[i]
  void (*combine)(void* out, const void* acc, const void* in, std::size_t count);
  // out[i] = acc[i], for avg acc[i] / ranks, rounded to the element type
  void (*finish)(void* out, const void* acc, std::size_t count, int ranks);
};

const ReduceKernels& reduce_kernels(DType dtype, ReduceOp op);

// Reduces inputs[0], inputs[1], ... in this order and writes the result to each of `outputs`,
// reading and writing every element once. An output may be one of the inputs. `elements` of each.
void reduce_to_all(const ReduceKernels& kernels, std::span<const std::byte* const> inputs,
                   std::span<std::byte* const> outputs, std::size_t elements);

}  // namespace lockstep::comm::ring

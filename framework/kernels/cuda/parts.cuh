// One pass over a long range: a warp for each part of terms_of_a_part elements.
#pragma once

#include "framework/base/division.h"
#include "framework/kernels/cuda/reduce.h"
#include "framework/kernels/cuda/team.cuh"

namespace lockstep::kernels::cuda {

constexpr std::int64_t parts_of(std::int64_t count) {
  return base::ceil_div(count, terms_of_a_part);
}
inline unsigned blocks_for_parts(std::int64_t count) {
  return blocks_for_rows<1>(parts_of(count));
}
// Of the range, and so of each part.
template <class T>
bool is_aligned(const T* range) {
  return reinterpret_cast<std::uintptr_t>(range) % 16 == 0;
}

// In a kernel of so many blocks: body(team, part, its length, its elements).
template <class T, class Body>
__device__ void for_parts(std::int64_t count, const T* range, Body body) {
  const Team<1> team;
  for (std::int64_t part = team.first_row(); part < parts_of(count); part += team.row_step()) {
    const std::int64_t left = count - part * terms_of_a_part;
    body(team, part, left < terms_of_a_part ? left : terms_of_a_part,
         range + part * terms_of_a_part);
  }
}

}  // namespace lockstep::kernels::cuda

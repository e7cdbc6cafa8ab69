// Cutting a loop into blocks by its length alone, so that what a block computes is the same for any
// number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/base/division.h"
#include "framework/device/context.h"
#include "framework/device/thread_pool.h"

namespace lockstep::kernels {

// About how many elements make a block worth handing to another thread.
inline constexpr std::int64_t elements_per_block = 32 * 1024;

using base::ceil_div;

// Calls body(begin, end) for the blocks of `grain` that [0, count) is cut into.
template <class Body>
void for_blocks(Context& context, std::int64_t count, std::int64_t grain, Body&& body) {
  context.threads().for_each(ceil_div(count, grain), [&](std::int64_t block) {
    body(block * grain, std::min((block + 1) * grain, count));
  });
}

// for_blocks over rows of `width` elements each, whole rows to a block.
template <class Body>
void for_row_blocks(Context& context, std::int64_t rows, std::int64_t width, Body&& body) {
  const std::int64_t grain =
      std::max<std::int64_t>(1, elements_per_block / std::max<std::int64_t>(1, width));
  for_blocks(context, rows, grain, body);
}

}  // namespace lockstep::kernels

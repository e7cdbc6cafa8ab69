#include <algorithm>
#include <cmath>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/dispatch.h"
#include "framework/kernels/cpu/pack.h"
#include "framework/kernels/cpu/parallel.h"

namespace lockstep::kernels {
namespace {

// Elements [begin, end) of row `row` of the mask, 4 to a block of the stream; `begin` is a multiple
// of 4.
template <bool accumulate, class T>
void drop(const base::RandomStream& stream, std::uint64_t row, std::int64_t begin, std::int64_t end,
          std::uint32_t threshold, T scale, const T* x, T* y) {
  for (std::int64_t first = begin; first < end; first += 4) {
    const auto words = stream.block(row, static_cast<std::uint64_t>(first) / 4);
    for (std::int64_t i = first; i < std::min(first + 4, end); ++i) {
      const bool keep = words[static_cast<std::size_t>(i - first)] >> 8 >= threshold;
      const T value = keep ? x[i] * scale : T(0);
      y[i] = accumulate ? y[i] + value : value;
    }
  }
}

}  // namespace

void CpuKernels::dropout(const Tensor& x, double p, const base::RandomStream& stream,
                         std::int64_t first_row, const Tensor& y, bool accumulate) const {
  require_shape("dropout", "y", y, x.shape());
  require_contiguous("dropout", "y", y);
  if (y.count() == 0) return;
  const Tensor x_rows = contiguous(x);
  const std::int64_t rows = x.rank() > 0 ? x.shape()[0] : 1, width = x.count() / rows;
  // A uniform of 24 bits is kept when it is at least p.
  const auto threshold = static_cast<std::uint32_t>(std::ceil(p * 0x1p24));
  visit_float("dropout", y.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T scale = static_cast<T>(1 / (1 - p));
    const T* const from = x_rows.data<T>();
    T* const to = y.data<T>();
    const std::int64_t pieces = ceil_div(width, elements_per_block);
    for_row_blocks(y.context(), rows * pieces, std::min(width, elements_per_block),
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t piece = first; piece < last; ++piece) {
                       const std::int64_t row = piece / pieces;
                       const std::int64_t begin = piece % pieces * elements_per_block;
                       const std::int64_t end = std::min(begin + elements_per_block, width);
                       const auto key = static_cast<std::uint64_t>(first_row + row);
                       const auto apply = accumulate ? &drop<true, T> : &drop<false, T>;
                       apply(stream, key, begin, end, threshold, scale, from + row * width,
                             to + row * width);
                     }
                   });
  });
}

}  // namespace lockstep::kernels

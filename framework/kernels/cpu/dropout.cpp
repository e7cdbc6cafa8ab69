#include <algorithm>
#include <cmath>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/pack.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/dispatch.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t blocks_at_once = 64, words_at_once = 4 * blocks_at_once;

// The words of blocks (row, first), (row, first + 1) ... in order: RandomStream::block for many
// blocks side by side, in loops long enough that the compiler vectorises rather than unrolls them.
void draw(base::PhiloxKey key, std::uint64_t row, std::uint64_t first,
          std::uint32_t (&words)[words_at_once]) {
  std::uint32_t c0[blocks_at_once], c1[blocks_at_once], c2[blocks_at_once], c3[blocks_at_once];
  for (std::uint64_t i = 0; i < blocks_at_once; ++i) {
    c0[i] = static_cast<std::uint32_t>(first + i);
    c1[i] = static_cast<std::uint32_t>((first + i) >> 32);
    c2[i] = static_cast<std::uint32_t>(row);
    c3[i] = static_cast<std::uint32_t>(row >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    for (std::int64_t i = 0; i < blocks_at_once; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0[i];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ key[0];
      c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ key[1];
      c1[i] = static_cast<std::uint32_t>(p1);
      c3[i] = static_cast<std::uint32_t>(p0);
    }
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  for (std::int64_t i = 0; i < blocks_at_once; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

// Elements [begin, end) of one row; `begin` is a multiple of words_at_once.
template <bool accumulate, class T>
void drop(base::PhiloxKey key, std::uint64_t row, std::int64_t begin, std::int64_t end,
          std::uint32_t threshold, T scale, const T* x, T* y) {
  for (std::int64_t first = begin; first < end; first += words_at_once) {
    std::uint32_t words[words_at_once];
    draw(key, row, static_cast<std::uint64_t>(first) / 4, words);
    const std::int64_t count = std::min(words_at_once, end - first);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const T scaled = x[first + i] * scale;
      const T value = (words[i] >> 8) >= threshold ? scaled : T(0);
      y[first + i] = accumulate ? y[first + i] + value : value;
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
                       apply(stream.key(), key, begin, end, threshold, scale, from + row * width,
                             to + row * width);
                     }
                   });
  });
}

}  // namespace lockstep::kernels

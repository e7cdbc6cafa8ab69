// Matrix products cut into tiles, each one gemm on one thread.
//
// The bits of a product do not depend on its tiles (see gemm.h), so there may be as many as the
// threads at hand can use. The summed axis is never cut.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/cpu/gemm.h"
#include "framework/kernels/cpu/parallel.h"

namespace lockstep::kernels {

struct Tile {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
};

// How an m x n product is cut for a number of threads.
class Tiling {
 public:
  Tiling(std::int64_t m, std::int64_t n, int threads) : m_(m), n_(n) {
    // Large enough to repay copying the operands, small enough to be in cache when bias and
    // activation are applied; then smaller until every thread has a few.
    constexpr std::int64_t least = 64;
    const std::int64_t wanted = threads > 1 ? 3 * threads : 1;
    while (count() < wanted && std::max(rows_, columns_) > least) {
      std::int64_t& longer = std::min(rows_, m) > std::min(columns_, n) ? rows_ : columns_;
      if (longer <= least) break;
      longer /= 2;
    }
  }

  std::int64_t count() const { return across() * ceil_div(m_, rows_); }
  Tile operator[](std::int64_t index) const {
    const std::int64_t row = index / across() * rows_, column = index % across() * columns_;
    return {row, column, std::min(rows_, m_ - row), std::min(columns_, n_ - column)};
  }

 private:
  std::int64_t across() const { return ceil_div(n_, columns_); }

  std::int64_t m_, n_, rows_ = 256, columns_ = 256;
};

// The part of a product that one tile is.
template <class T>
GemmArguments<T> part(const GemmArguments<T>& whole, const Tile& tile) {
  GemmArguments<T> arguments = whole;
  arguments.m = tile.rows;
  arguments.n = tile.columns;
  arguments.a.data = whole.a.at(tile.row, 0);
  arguments.b.data = whole.b.at(0, tile.column);
  arguments.c.data = whole.c.at(tile.row, tile.column);
  return arguments;
}

}  // namespace lockstep::kernels

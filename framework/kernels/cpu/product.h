// Matrix products cut into tiles, each one gemm on one thread.
//
// The tiles follow from the shape alone and never divide the summed axis. (gemm's bits would not
// depend on them in any case.)
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/cpu/gemm.h"
#include "framework/kernels/cpu/parallel.h"

namespace lockstep::kernels {

struct Tile {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
};

// How an m x n product is cut.
class Tiling {
 public:
  Tiling(std::int64_t m, std::int64_t n) : m_(m), n_(n), across_(ceil_div(n, columns)) {}

  std::int64_t count() const { return across_ * ceil_div(m_, rows); }
  Tile operator[](std::int64_t index) const {
    const std::int64_t row = index / across_ * rows, column = index % across_ * columns;
    return {row, column, std::min(rows, m_ - row), std::min(columns, n_ - column)};
  }

 private:
  static constexpr std::int64_t rows = 256, columns = 256;

  std::int64_t m_, n_, across_;
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

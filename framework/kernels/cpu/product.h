// Matrix products cut into tiles.
//
// The tiles follow from the shape alone and never divide the summed axis; each is one gemm on one
// thread. So the bits of a product do not depend on how many threads computed it.
#pragma once

#include <cstdint>

#include "framework/kernels/cpu/gemm.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/tensor/tensor.h"

namespace lockstep::kernels {

// A rows x columns view as BLAS takes it: row-major, or the transpose of a row-major matrix.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t leading = 0;
  bool transposed = false;

  T* block(std::int64_t row, std::int64_t column) const {
    return data + (transposed ? column * leading + row : row * leading + column);
  }
};

struct Strides2d {
  std::int64_t row = 0, column = 0;
};

// Whether BLAS can take a view of these strides as it is.
inline bool is_row_major(std::int64_t rows, std::int64_t columns, Strides2d strides) {
  return (strides.column == 1 || columns <= 1) && (strides.row >= columns || rows <= 1);
}
inline bool is_blas_matrix(std::int64_t rows, std::int64_t columns, Strides2d strides) {
  return is_row_major(rows, columns, strides) ||
         is_row_major(columns, rows, {strides.column, strides.row});
}

// `strides` must satisfy is_blas_matrix.
template <class T>
Matrix<T> blas_matrix(T* data, std::int64_t rows, std::int64_t columns, Strides2d strides) {
  const bool straight = is_row_major(rows, columns, strides);
  const std::int64_t lines = straight ? rows : columns, length = straight ? columns : rows;
  const std::int64_t stride = straight ? strides.row : strides.column;
  // Of a single line the stride means nothing, but BLAS checks it.
  const std::int64_t leading = lines > 1 ? stride : std::max<std::int64_t>(1, length);
  return {data, leading, !straight};
}

struct Tiling {
  std::int64_t rows = 0, columns = 0;  // of a tile
  std::int64_t across = 0, count = 0;  // tiles side by side; tiles in all
};

// How an m x n product is cut.
Tiling tiles_of(std::int64_t m, std::int64_t n);

struct Tile {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
};

inline Tile tile_at(const Tiling& tiling, std::int64_t index, std::int64_t m, std::int64_t n) {
  const std::int64_t row = index / tiling.across * tiling.rows;
  const std::int64_t column = index % tiling.across * tiling.columns;
  return {row, column, std::min(tiling.rows, m - row), std::min(tiling.columns, n - column)};
}

// One tile of c = a * b + beta * c; c is row-major, k > 0.
template <class T>
void multiply_tile(const Tile& tile, std::int64_t k, Matrix<const T> a, Matrix<const T> b, T beta,
                   Matrix<T> c) {
  gemm(a.transposed, b.transposed, tile.rows, tile.columns, k, T(1), a.block(tile.row, 0),
       a.leading, b.block(0, tile.column), b.leading, beta, c.block(tile.row, tile.column),
       c.leading);
}

}  // namespace lockstep::kernels

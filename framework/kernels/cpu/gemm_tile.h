// gemm for the instruction set that the including file is compiled for.
//
// Two operands play different roles. Rows of the "broadcast" operand are read one element at a time
// and spread over a vector; it can be used where it lies if it is contiguous along the summed axis.
// The "vector" operand is read in strips of two vectors and copied if its strips are not
// contiguous. Either of a and b can take either role, since c^T = b^T a^T; `cheaper_swapped`
// chooses.
#pragma once

#include "framework/kernels/cpu/gemm.h"
#include "framework/kernels/cpu/simd.h"

namespace lockstep::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int max_rows = 14;  // 28 accumulators, two vectors of the strip, of 32 registers
#else
constexpr int max_rows = 6;  // 12 accumulators of 16 registers
#endif

template <class T>
constexpr std::int64_t strip = 2 * lanes<T>;
constexpr std::int64_t summed_block = gemm_summed_block;
// Elements of the broadcast operand that are copied at a time: half a megabyte.
template <class T>
constexpr std::int64_t block_size = 512 * 1024 / static_cast<std::int64_t>(sizeof(T));
constexpr std::int64_t padding = 16;  // keeps copied rows from falling on the same cache sets

constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
constexpr std::int64_t round_up(std::int64_t a, std::int64_t to) {
  return (a + to - 1) / to * to;
}

// out[rows, strip] (+)= a[rows, k] * b[k, strip] for one register tile.
template <int rows, class T>
void multiply_rows(std::int64_t k, MatrixView<const T> a, const T* b, std::int64_t b_stride, T* out,
                   std::int64_t out_stride, bool accumulate) {
  Vector<T> sum[rows][2];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) sum[r][0] = sum[r][1] = Vector<T>{};
  const auto step = [&](const T* column, std::int64_t row_stride, const T* line) {
    const Vector<T> left = load(line), right = load(line + lanes<T>);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const Vector<T> factor = column[r * row_stride] - Vector<T>{};
      sum[r][0] = multiply_add<T>(factor, left, sum[r][0]);
      sum[r][1] = multiply_add<T>(factor, right, sum[r][1]);
    }
  };
  if (a.row_stride == 1) {
    for (std::int64_t p = 0; p < k; ++p) step(a.data + p * a.column_stride, 1, b + p * b_stride);
  } else {
    for (std::int64_t p = 0; p < k; ++p) step(a.data + p, a.row_stride, b + p * b_stride);
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
    T* const row = out + r * out_stride;
    store(row, accumulate ? load(row) + sum[r][0] : sum[r][0]);
    store(row + lanes<T>, accumulate ? load(row + lanes<T>) + sum[r][1] : sum[r][1]);
  }
}

template <class T>
using RowsFunction = void (*)(std::int64_t, MatrixView<const T>, const T*, std::int64_t, T*,
                              std::int64_t, bool);

template <class T, int... i>
constexpr RowsFunction<T> rows_function(std::int64_t rows, std::integer_sequence<int, i...>) {
  constexpr RowsFunction<T> functions[] = {&multiply_rows<i + 1, T>...};
  return functions[rows - 1];
}

// Copies b[k, columns] into a strip, whose missing columns become 0.
template <class T>
void copy_strip(std::int64_t k, std::int64_t columns, MatrixView<const T> b, T* to) {
  constexpr std::int64_t width = lanes<T>;
  if (b.column_stride == 1) {
    for (std::int64_t p = 0; p < k; ++p) {
      const T* const row = b.at(p, 0);
      store(to + p * strip<T>, load_first(row, columns));
      store(to + p * strip<T> + width, load_first(row + width, columns - width));
    }
  } else if (b.row_stride == 1) {
    for (std::int64_t p = 0; p < k; p += width) {
      const std::int64_t depth = smaller(width, k - p);
      for (std::int64_t half = 0; half < strip<T>; half += width) {
        Vector<T> square[width];
        for (std::int64_t j = 0; j < width; ++j) {
          square[j] = half + j < columns ? load_first(b.at(p, half + j), depth) : Vector<T>{};
        }
        transpose<T>(square);
        for (std::int64_t i = 0; i < depth; ++i) store(to + (p + i) * strip<T> + half, square[i]);
      }
    }
  } else {
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t j = 0; j < strip<T>; ++j) {
        to[p * strip<T> + j] = j < columns ? *b.at(p, j) : T(0);
      }
    }
  }
}

// Copies a[rows, k] so that rows do not compete for cache sets; keeps the direction that is
// contiguous.
template <class T>
MatrixView<const T> copy_block(std::int64_t rows, std::int64_t k, MatrixView<const T> a, T* to) {
  if (a.row_stride == 1) {
    const std::int64_t stride = rows + padding;
    for (std::int64_t p = 0; p < k; ++p) {
      std::memcpy(to + p * stride, a.at(0, p), static_cast<std::size_t>(rows) * sizeof(T));
    }
    return {to, 1, stride};
  }
  const std::int64_t stride = k + padding;
  for (std::int64_t i = 0; i < rows; ++i) {
    T* const row = to + i * stride;
    if (a.column_stride == 1) {
      std::memcpy(row, a.at(i, 0), static_cast<std::size_t>(k) * sizeof(T));
    } else {
      for (std::int64_t p = 0; p < k; ++p) row[p] = *a.at(i, p);
    }
  }
  return {to, stride, 1};
}

// How many rows of the broadcast operand copy_block may take.
template <class T>
std::int64_t copied_rows(std::int64_t k) {
  return (block_size<T> / (k + padding) - padding) / max_rows * max_rows;
}

// Whether the broadcast operand is read fast where it lies.
template <class T>
bool usable_in_place(std::int64_t k, MatrixView<const T> a) {
  if (a.column_stride == 1) {
    // Rows a multiple of 4 KiB apart fall on the same set of the first-level cache.
    const std::int64_t apart = a.row_stride * static_cast<std::int64_t>(sizeof(T)) % 4096;
    return smaller(apart, 4096 - apart) >= 64;
  }
  return a.row_stride == 1 && k <= 64;
}

// Writes a register tile that lies in `tile` (rows of `strip` elements) to c.
template <class T>
void store_tile(std::int64_t rows, std::int64_t columns, const T* tile, MatrixView<T> c,
                bool accumulate) {
  constexpr std::int64_t width = lanes<T>;
  if (c.column_stride == 1) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t half = 0; half < columns; half += width) {
        const Vector<T> v = load(tile + r * strip<T> + half);
        T* const to = c.at(r, half);
        store_first(to, accumulate ? load_first<T>(to, columns - half) + v : v, columns - half);
      }
    }
  } else if (c.row_stride == 1) {
    for (std::int64_t r = 0; r < rows; r += width) {
      const std::int64_t depth = smaller(width, rows - r);
      for (std::int64_t half = 0; half < columns; half += width) {
        Vector<T> square[width];
        for (std::int64_t i = 0; i < width; ++i) {
          square[i] = i < depth ? load(tile + (r + i) * strip<T> + half) : Vector<T>{};
        }
        transpose<T>(square);
        for (std::int64_t j = 0; j < smaller(width, columns - half); ++j) {
          T* const to = c.at(r, half + j);
          store_first(to, accumulate ? load_first<T>(to, depth) + square[j] : square[j], depth);
        }
      }
    }
  } else {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < columns; ++j) {
        T* const to = c.at(r, j);
        *to = accumulate ? *to + tile[r * strip<T> + j] : tile[r * strip<T> + j];
      }
    }
  }
}

// c[rows, columns] (+)= a[rows, k] * one strip of b, in register tiles of even height.
template <class T>
void multiply_strip(std::int64_t rows, std::int64_t columns, std::int64_t k, MatrixView<const T> a,
                    const T* b, std::int64_t b_stride, MatrixView<T> c, bool accumulate) {
  const std::int64_t panels = (rows + max_rows - 1) / max_rows;
  const bool direct = columns == strip<T> && c.column_stride == 1;
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t first = panel * rows / panels, height = (panel + 1) * rows / panels - first;
    const auto multiply = rows_function<T>(height, std::make_integer_sequence<int, max_rows>{});
    const MatrixView<const T> a_panel{a.at(first, 0), a.row_stride, a.column_stride};
    if (direct) {
      multiply(k, a_panel, b, b_stride, c.at(first, 0), c.row_stride, accumulate);
    } else {
      alignas(vector_bytes) T tile[max_rows * strip<T>];
      multiply(k, a_panel, b, b_stride, tile, strip<T>, false);
      store_tile<T>(height, columns, tile, {c.at(first, 0), c.row_stride, c.column_stride},
                    accumulate);
    }
  }
}

// The product with a as the broadcast and b as the vector operand.
template <class T>
void multiply_blocks(const GemmArguments<T>& g) {
  alignas(vector_bytes) T strip_copy[summed_block * strip<T>];
  alignas(vector_bytes) T block_copy[block_size<T>];
  for (std::int64_t p = 0; p < g.k; p += summed_block) {
    const std::int64_t k = smaller(summed_block, g.k - p);
    const bool in_place = usable_in_place(k, g.a);
    const std::int64_t block = in_place ? g.m : copied_rows<T>(k);
    for (std::int64_t i = 0; i < g.m; i += block) {
      const std::int64_t rows = smaller(block, g.m - i);
      MatrixView<const T> a{g.a.at(i, p), g.a.row_stride, g.a.column_stride};
      if (!in_place) a = copy_block(rows, k, a, block_copy);
      for (std::int64_t j = 0; j < g.n; j += strip<T>) {
        const std::int64_t columns = smaller(strip<T>, g.n - j);
        MatrixView<const T> b{g.b.at(p, j), g.b.row_stride, g.b.column_stride};
        if (b.column_stride != 1 || columns < strip<T> || rows > 3 * max_rows) {
          copy_strip(k, columns, b, strip_copy);
          b = {strip_copy, strip<T>, 1};
        }
        multiply_strip<T>(rows, columns, k, a, b.data, b.row_stride,
                          {g.c.at(i, j), g.c.row_stride, g.c.column_stride}, g.accumulate || p > 0);
      }
    }
  }
}

// About how many cycles multiply_blocks takes, times ten.
template <class T>
std::int64_t estimated_cost(const GemmArguments<T>& g) {
  constexpr std::int64_t even = 1, transposing = 3,
                         scattered = 15;  // tenths of a cycle for an element
  const std::int64_t products = g.m * round_up(g.n, strip<T>) * g.k * 5 / lanes<T>;
  const std::int64_t copy = g.b.column_stride == 1 ? even
                            : g.b.row_stride == 1  ? transposing
                                                   : scattered;
  const std::int64_t write = g.c.column_stride == 1 ? 0
                             : g.c.row_stride == 1  ? transposing
                                                    : scattered;
  return products + g.k * g.n * copy + g.m * g.n * write;
}

template <class T>
void multiply_best(const GemmArguments<T>& g) {
  if (g.k == 0 && !g.accumulate) {  // nothing below would write c
    for (std::int64_t i = 0; i < g.m; ++i) {
      for (std::int64_t j = 0; j < g.n; ++j) *g.c.at(i, j) = T(0);
    }
  }
  const GemmArguments<T> swapped{
      g.n, g.m, g.k, g.b.transposed(), g.a.transposed(), g.c.transposed(), g.accumulate};
  multiply_blocks(estimated_cost(swapped) < estimated_cost(g) ? swapped : g);
}

}  // namespace
}  // namespace lockstep::kernels

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
constexpr std::int64_t summed_block = gemm_longest_part;
// Elements of the broadcast operand that are worked on at a time (half a megabyte), and columns of
// the vector operand (a megabyte).
template <class T>
constexpr std::int64_t block_size = 512 * 1024 / static_cast<std::int64_t>(sizeof(T));
template <class T>
constexpr std::int64_t column_block = 640 / static_cast<std::int64_t>(sizeof(T));
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
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {  // c is likely not in the first-level cache
    __builtin_prefetch(out + r * out_stride, 1);
    __builtin_prefetch(out + r * out_stride + lanes<T>, 1);
  }
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

// Copies b[k, columns] into strips, one after the other; missing columns of the last become 0.
template <class T>
void copy_strips(std::int64_t k, std::int64_t columns, MatrixView<const T> b, T* to) {
  constexpr std::int64_t width = lanes<T>;
  const auto place = [=](std::int64_t p, std::int64_t column) {
    return to + column / strip<T> * (k * strip<T>)+p * strip<T> + column % strip<T>;
  };
  const std::int64_t padded = round_up(columns, strip<T>);
  if (b.column_stride == 1) {
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t j = 0; j < padded; j += width) {
        store(place(p, j), load_first(b.at(p, j), columns - j));
      }
    }
  } else if (b.row_stride == 1) {
    for (std::int64_t j = 0; j < padded; j += width) {
      for (std::int64_t p = 0; p < k; p += width) {
        const std::int64_t depth = smaller(width, k - p);
        Vector<T> square[width];
        for (std::int64_t i = 0; i < width; ++i) {
          square[i] = j + i < columns ? load_first(b.at(p, j + i), depth) : Vector<T>{};
        }
        transpose<T>(square);
        for (std::int64_t i = 0; i < depth; ++i) store(place(p + i, j), square[i]);
      }
    }
  } else {
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t j = 0; j < padded; ++j) *place(p, j) = j < columns ? *b.at(p, j) : T(0);
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

// How many rows of the broadcast operand make a block.
template <class T>
std::int64_t rows_of_block(std::int64_t k) {
  return (block_size<T> / (k + padding) - padding) / max_rows * max_rows;
}

// Lines that are a multiple of 4 KiB apart fall on the same set of the first-level cache.
template <class T>
bool lines_collide(std::int64_t stride) {
  const std::int64_t apart = stride * static_cast<std::int64_t>(sizeof(T)) % 4096;
  return smaller(apart, 4096 - apart) < 64;
}

// Whether the broadcast operand is read fast where it lies.
template <class T>
bool usable_in_place(std::int64_t k, MatrixView<const T> a) {
  if (a.column_stride == 1) return !lines_collide<T>(a.row_stride);
  return a.row_stride == 1 && (k <= 64 || !lines_collide<T>(a.column_stride));
}

// Whether strips of the vector operand are, by `m` rows of the other.
template <class T>
bool strips_usable_in_place(std::int64_t m, MatrixView<const T> b) {
  return b.column_stride == 1 && (!lines_collide<T>(b.row_stride) || m <= 2 * max_rows);
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

// Strips of the vector operand, where they lie or copied.
template <class T>
struct Strips {
  const T* data;
  std::int64_t row_stride;  // from one element of the summed axis to the next
  std::int64_t next;        // from one strip to the next
};

// c[rows, columns] (+)= a[rows, k] * strips, in register tiles of even height. The tiles of some
// rows follow each other, so that c is written along its rows.
template <class T>
void multiply_strips(std::int64_t rows, std::int64_t columns, std::int64_t k, MatrixView<const T> a,
                     const Strips<T>& strips, MatrixView<T> c, bool accumulate) {
  const std::int64_t panels = (rows + max_rows - 1) / max_rows;
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t first = panel * rows / panels;
    const std::int64_t height = (panel + 1) * rows / panels - first;
    const auto multiply = rows_function<T>(height, std::make_integer_sequence<int, max_rows>{});
    const MatrixView<const T> a_panel{a.at(first, 0), a.row_stride, a.column_stride};
    const T* b = strips.data;
    for (std::int64_t j = 0; j < columns; j += strip<T>, b += strips.next) {
      const MatrixView<T> to{c.at(first, j), c.row_stride, c.column_stride};
      if (columns - j >= strip<T> && c.column_stride == 1) {
        multiply(k, a_panel, b, strips.row_stride, to.data, to.row_stride, accumulate);
      } else {
        alignas(vector_bytes) T tile[max_rows * strip<T>];
        multiply(k, a_panel, b, strips.row_stride, tile, strip<T>, false);
        store_tile<T>(height, smaller(strip<T>, columns - j), tile, to, accumulate);
      }
    }
  }
}

// The product with a as the broadcast and b as the vector operand.
template <class T>
void multiply_blocks(const GemmArguments<T>& g) {
  alignas(vector_bytes) T strip_copies[summed_block * column_block<T>];
  alignas(vector_bytes) T block_copy[block_size<T>];
  const bool strips_in_place = strips_usable_in_place(g.m, g.b);
  const std::int64_t parts = gemm_parts(g.k);
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t p = part * g.k / parts, k = (part + 1) * g.k / parts - p;
    const bool block_in_place = usable_in_place(k, g.a);
    const std::int64_t block_rows = block_in_place ? g.m : rows_of_block<T>(k);
    std::int64_t columns = 0;
    for (std::int64_t j = 0; j < g.n; j += columns) {
      columns = smaller(column_block<T>, g.n - j);
      Strips<T> strips{g.b.at(p, j), g.b.row_stride, strip<T>};
      if (strips_in_place && columns >= strip<T>) {
        columns -= columns % strip<T>;  // an incomplete one comes in the next round
      } else {
        copy_strips(k, columns, {g.b.at(p, j), g.b.row_stride, g.b.column_stride}, strip_copies);
        strips = {strip_copies, strip<T>, strip<T> * k};
      }
      for (std::int64_t i = 0; i < g.m; i += block_rows) {
        const std::int64_t rows = smaller(block_rows, g.m - i);
        MatrixView<const T> a{g.a.at(i, p), g.a.row_stride, g.a.column_stride};
        if (!block_in_place) a = copy_block(rows, k, a, block_copy);
        multiply_strips<T>(rows, columns, k, a, strips,
                           {g.c.at(i, j), g.c.row_stride, g.c.column_stride},
                           g.accumulate || p > 0);
      }
    }
  }
}

// About how many cycles multiply_blocks takes, times ten.
template <class T>
std::int64_t estimated_cost(const GemmArguments<T>& g) {
  // For one element, in tenths of a cycle.
  constexpr std::int64_t copying = 2, transposing = 3, scattering = 15;
  const auto cost = [](std::int64_t along, std::int64_t across, std::int64_t even) {
    return along == 1 ? even : across == 1 ? transposing : scattering;
  };
  std::int64_t total = g.m * round_up(g.n, strip<T>) * g.k * 5 / lanes<T>;
  if (!usable_in_place(g.k, g.a))
    total += g.m * g.k * (g.a.row_stride == 1 || g.a.column_stride == 1 ? copying : scattering);
  if (!strips_usable_in_place(g.m, g.b))
    total += g.k * g.n * cost(g.b.column_stride, g.b.row_stride, copying);
  return total + g.m * g.n * cost(g.c.column_stride, g.c.row_stride, 0);
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

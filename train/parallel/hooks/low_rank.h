// The arithmetic of low-rank factors, each vector of a factor contiguous: k vectors of n elements
// are v[0 .. n), v[n .. 2n), ...  On one thread, in a fixed order: equal bits in, equal bits out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "framework/kernels/cpu/reduce.h"
#include "train/parallel/hooks/dependence.h"

namespace lockstep::train {

// A row-major matrix.
template <class T>
struct MatrixView {
  T* data;
  std::int64_t rows, columns;
  T* row(std::int64_t i) const { return data + i * columns; }
};

template <class T>
double dot(const T* a, const T* b, std::int64_t n) {
  return kernels::lane_sum(
      n, [=](std::int64_t i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); });
}

// y += factor * x
template <class T>
void add_multiple(T factor, const T* x, std::int64_t n, T* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

// left = matrix * right, for k vectors.
template <class T>
void multiply(const MatrixView<T>& matrix, const T* right, int k, T* left) {
  for (std::int64_t i = 0; i < matrix.rows; ++i)
    for (int j = 0; j < k; ++j)
      left[j * matrix.rows + i] =
          static_cast<T>(dot(matrix.row(i), right + j * matrix.columns, matrix.columns));
}

// right = matrix^T * left
template <class T>
void multiply_transposed(const MatrixView<T>& matrix, const T* left, int k, T* right) {
  std::fill_n(right, k * matrix.columns, T(0));
  for (std::int64_t i = 0; i < matrix.rows; ++i)
    for (int j = 0; j < k; ++j)
      add_multiple(left[j * matrix.rows + i], matrix.row(i), matrix.columns,
                   right + j * matrix.columns);
}

// matrix += sign * left * right^T
template <class T>
void add_product(T sign, const T* left, const T* right, int k, const MatrixView<T>& matrix) {
  for (std::int64_t i = 0; i < matrix.rows; ++i)
    for (int j = 0; j < k; ++j)
      add_multiple(sign * left[j * matrix.rows + i], right + j * matrix.columns, matrix.columns,
                   matrix.row(i));
}

// Makes vector j orthogonal to those before it and of length one, by Gram and Schmidt's method,
// twice, which is enough. A vector that depends on those before it becomes zero, and one that is
// not finite NaN. Returns whether something was left.
template <class T>
bool orthonormalize(T* vectors, std::int64_t n, int j) {
  T* const v = vectors + j * n;
  const double before = std::sqrt(dot(v, v, n));
  for (int pass = 0; pass < 2; ++pass)
    for (int i = 0; i < j; ++i)
      add_multiple(static_cast<T>(-dot(vectors + i * n, v, n)), vectors + i * n, n, v);
  const double length = std::sqrt(dot(v, v, n));
  // Written so that NaN is not taken for nothing.
  if (length <= dependent_share<T> * before) {
    std::fill_n(v, n, T(0));
    return false;
  }
  for (std::int64_t i = 0; i < n; ++i) v[i] = static_cast<T>(static_cast<double>(v[i]) / length);
  return true;
}

}  // namespace lockstep::train

// The matrix product of one thread: the one function under matmul and linear.
//
// Element (i, j) of the product is one chain of fused multiply-adds along the summed axis, in
// order, cut where `gemm_parts` says. So its bits depend on row i of a and column
// j of b and on nothing else: not on the other rows of a batch, the tile it was computed in,
// strides, transposition or the width of the processor's vectors. (A processor without fused
// multiply-add rounds twice and gives other bits.)
//
// The structure is that of Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication" (ACM TOMS 2008) and BLIS: a register tile of a few rows by two vectors, fed from
// a strip of b that stays in the first-level cache and a block of a that stays in the second.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::kernels {

// The parts that the summed axis is cut into: as even as can be, part i from i * k / parts on.
inline constexpr std::int64_t gemm_longest_part = 1024;
inline constexpr std::int64_t gemm_parts(std::int64_t k) {
  return (k + gemm_longest_part - 1) / gemm_longest_part;
}

// A matrix of any strides (in elements).
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;

  T* at(std::int64_t row, std::int64_t column) const {
    return data + row * row_stride + column * column_stride;
  }
  MatrixView transposed() const { return {data, column_stride, row_stride}; }
};

// c[m, n] = a[m, k] * b[k, n], added to c when `accumulate`; otherwise c is not read. On the
// calling thread, without memory of its own but the stack (1.2 MiB). Thread-safe. Everything may be
// of size 0.
template <class T>
struct GemmArguments {
  std::int64_t m = 0, n = 0, k = 0;
  MatrixView<const T> a, b;
  MatrixView<T> c;
  bool accumulate = false;
};
void gemm(const GemmArguments<float>& arguments);
void gemm(const GemmArguments<double>& arguments);

// gemm compiled for one instruction set.
struct GemmKernels {
  std::string_view name;
  void (*float32)(const GemmArguments<float>&);
  void (*float64)(const GemmArguments<double>&);
  bool fused;  // whether the processor's multiply-add rounds once
};

// Those that this processor can run, best first; gemm() uses the first.
std::span<const GemmKernels* const> gemm_kernels();

}  // namespace lockstep::kernels

// The one place that calls a BLAS.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

// c[m, n] = alpha * op(a) * op(b) + beta * c on the calling thread, where op transposes when asked
// to; op(a) is [m, k] and op(b) [k, n]. All row-major with leading dimensions (elements from one
// row to the next); with beta == 0, c is not read. Thread-safe. Throws UsageError when an extent or
// a leading dimension does not fit into BLAS's int.
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc);
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          double alpha, const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
          double beta, double* c, std::int64_t ldc);

}  // namespace lockstep::kernels

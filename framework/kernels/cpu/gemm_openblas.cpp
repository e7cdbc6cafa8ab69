// gemm on OpenBLAS.
#ifdef LOCKSTEP_HAS_OPENBLAS
#include <cblas.h>
#include <fmt/format.h>

#include <limits>
#include <string>

#include "framework/base/error.h"
#include "framework/kernels/cpu/gemm.h"
#include "framework/kernels/kernels.h"

namespace lockstep::kernels {
namespace {

int blas_int(std::int64_t value) {
  if (value <= std::numeric_limits<int>::max()) return static_cast<int>(value);
  throw UsageError(fmt::format("gemm: an extent or leading dimension is {}, BLAS takes at most {}",
                               value, std::numeric_limits<int>::max()));
}

CBLAS_TRANSPOSE transposition(bool transpose) {
  return transpose ? CblasTrans : CblasNoTrans;
}

}  // namespace

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc) {
  cblas_sgemm(CblasRowMajor, transposition(transpose_a), transposition(transpose_b), blas_int(m),
              blas_int(n), blas_int(k), alpha, a, blas_int(lda), b, blas_int(ldb), beta, c,
              blas_int(ldc));
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          double alpha, const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
          double beta, double* c, std::int64_t ldc) {
  cblas_dgemm(CblasRowMajor, transposition(transpose_a), transposition(transpose_b), blas_int(m),
              blas_int(n), blas_int(k), alpha, a, blas_int(lda), b, blas_int(ldb), beta, c,
              blas_int(ldc));
}

std::string cpu_blas_description() {
  return fmt::format("{} (kernels: {})", openblas_get_config(), openblas_get_corename());
}

}  // namespace lockstep::kernels
#endif

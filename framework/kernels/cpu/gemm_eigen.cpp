// gemm on Eigen, where there is no BLAS.
#ifndef LOCKSTEP_HAS_OPENBLAS
#include <fmt/format.h>

#include <Eigen/Core>
#include <string>

#include "framework/kernels/cpu/gemm.h"
#include "framework/kernels/kernels.h"

namespace lockstep::kernels {
namespace {

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
void product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
             T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
             std::int64_t ldc) {
  using Input = Eigen::Map<const RowMajor<T>, 0, Eigen::OuterStride<>>;
  const Input a_map(a, transpose_a ? k : m, transpose_a ? m : k, Eigen::OuterStride<>(lda));
  const Input b_map(b, transpose_b ? n : k, transpose_b ? k : n, Eigen::OuterStride<>(ldb));
  Eigen::Map<RowMajor<T>, 0, Eigen::OuterStride<>> out(c, m, n, Eigen::OuterStride<>(ldc));
  if (beta == T(0)) {
    out.setZero();
  } else if (beta != T(1)) {
    out *= beta;
  }
  if (transpose_a && transpose_b) {
    out.noalias() += alpha * (a_map.transpose() * b_map.transpose());
  } else if (transpose_a) {
    out.noalias() += alpha * (a_map.transpose() * b_map);
  } else if (transpose_b) {
    out.noalias() += alpha * (a_map * b_map.transpose());
  } else {
    out.noalias() += alpha * (a_map * b_map);
  }
}

}  // namespace

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc) {
  product(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          double alpha, const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
          double beta, double* c, std::int64_t ldc) {
  product(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

std::string cpu_blas_description() {
  return fmt::format("Eigen {}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION,
                     EIGEN_MINOR_VERSION);
}

}  // namespace lockstep::kernels
#endif

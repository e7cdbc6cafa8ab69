// A test double of cuBLAS and cublasLt.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "tests/emulation/include/cublasLt.h"

namespace lockstep::emulation {
namespace {

template <class T>
struct Matrix {
  T* data;
  std::int64_t leading;
  bool transposed;
  T& at(std::int64_t row, std::int64_t column) const {
    return transposed ? data[column + row * leading] : data[row + column * leading];
  }
};

// A float with so many bits behind the point, to nearest, of equals to even.
float rounded(float value, int bits) {
  if (bits == 23 || !std::isfinite(value)) return value;
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t unit = 1u << (23 - bits), odd = word / unit % 2;
  return std::bit_cast<float>((word + unit / 2 - 1 + odd) / unit * unit);
}
double rounded(double value, int) {
  return value;
}

// How many bits behind the point a factor keeps; none where floats are not computed so.
std::optional<int> bits_of_factors(cublasComputeType_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_32F:
      return 23;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return 10;
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return 7;
    default:
      return std::nullopt;
  }
}

// c = relu?(alpha * a * b + beta * c + bias), all column-major.
template <class T>
struct Product {
  std::int64_t m, n, k;
  T alpha, beta;
  Matrix<const T> a, b;
  Matrix<T> c;
  std::int64_t a_stride, b_stride, c_stride, batch;
  const T* bias = nullptr;
  bool relu = false;
  int bits = 23;  // of the factors, where they are floats

  void compute() const {
    std::vector<T> packed_a(static_cast<std::size_t>(m * k)), column(static_cast<std::size_t>(m));
    for (std::int64_t i = 0; i < batch; ++i) {
      const Matrix<const T> left{a.data + i * a_stride, a.leading, a.transposed};
      const Matrix<const T> right{b.data + i * b_stride, b.leading, b.transposed};
      const Matrix<T> result{c.data + i * c_stride, c.leading, false};
      for (std::int64_t l = 0; l < k; ++l) {
        for (std::int64_t row = 0; row < m; ++row) {
          packed_a[static_cast<std::size_t>(row + l * m)] = rounded(left.at(row, l), bits);
        }
      }
      for (std::int64_t j = 0; j < n; ++j)
        compute_column(packed_a.data(), right, j, column.data(), result);
    }
  }

 private:
  void compute_column(const T* packed_a, const Matrix<const T>& right, std::int64_t j, T* column,
                      const Matrix<T>& result) const {
    std::fill_n(column, m, T(0));
    for (std::int64_t l = 0; l < k; ++l) {
      const T factor = rounded(right.at(l, j), bits);
      const T* const from = packed_a + l * m;
      for (std::int64_t row = 0; row < m; ++row) column[row] += from[row] * factor;
    }
    for (std::int64_t row = 0; row < m; ++row) {
      T value = alpha * column[row];
      if (beta != T(0)) value += beta * result.at(row, j);
      if (bias != nullptr) value += bias[row];
      if (relu && value < T(0)) value = T(0);
      result.at(row, j) = value;
    }
  }
};

template <class T>
class ProductCall final : public KernelCall {
 public:
  explicit ProductCall(const Product<T>& product) : product_(product) {}
  void run() const override { product_.compute(); }

 private:
  Product<T> product_;
};

template <class T>
cublasStatus_t enqueue(cudaStream_t stream, const char* name, const Product<T>& product) {
  const auto rows = [](const auto& matrix, std::int64_t r, std::int64_t c) {
    return std::max<std::int64_t>(1, matrix.transposed ? c : r);
  };
  const bool valid = product.m >= 0 && product.n >= 0 && product.k >= 0 && product.batch >= 0 &&
                     product.a.leading >= rows(product.a, product.m, product.k) &&
                     product.b.leading >= rows(product.b, product.k, product.n) &&
                     product.c.leading >= rows(product.c, product.m, product.n);
  if (!valid) return CUBLAS_STATUS_INVALID_VALUE;
  const cudaError_t status = enqueue_task(stream, name, std::make_unique<ProductCall<T>>(product));
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

bool is_aligned(const void* address, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

}  // namespace
}  // namespace lockstep::emulation

using namespace lockstep::emulation;

struct cublasContext {
  cudaStream_t stream = nullptr;
};
struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t operation_a = CUBLAS_OP_N, operation_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
  int bits = 23;
};
struct cublasLtMatrixLayoutOpaque_t {
  std::int64_t rows, columns, leading;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint32_t alignment = 256;
};

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "?";
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void* workspace, std::size_t) {
  return is_aligned(workspace, 256) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t operation_a,
                                          cublasOperation_t operation_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType_t a_type,
                                          int a_leading, long long a_stride, const void* b,
                                          cudaDataType_t b_type, int b_leading, long long b_stride,
                                          const void* beta, void* c, cudaDataType_t c_type,
                                          int c_leading, long long c_stride, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  const auto run = [&]<class T>(T, cudaDataType_t type, std::optional<int> bits) {
    if (a_type != type || b_type != type || !bits) return CUBLAS_STATUS_NOT_SUPPORTED;
    return enqueue(handle->stream, "cublasGemmStridedBatchedEx",
                   Product<T>{m,
                              n,
                              k,
                              *static_cast<const T*>(alpha),
                              *static_cast<const T*>(beta),
                              {static_cast<const T*>(a), a_leading, operation_a == CUBLAS_OP_T},
                              {static_cast<const T*>(b), b_leading, operation_b == CUBLAS_OP_T},
                              {static_cast<T*>(c), c_leading, false},
                              a_stride,
                              b_stride,
                              c_stride,
                              batch,
                              nullptr,
                              false,
                              *bits});
  };
  if (c_type == CUDA_R_32F) return run(float{}, CUDA_R_32F, bits_of_factors(compute));
  return run(double{}, CUDA_R_64F,
             compute == CUBLAS_COMPUTE_64F ? std::optional(52) : std::nullopt);
}

// --- cublasLt
// --------------------------------------------------------------------------------------------

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale_type) {
  const std::optional<int> bits = bits_of_factors(compute);
  if (!bits || scale_type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *description = new cublasLtMatmulDescOpaque_t{.bits = *bits};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  const auto set = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(description->operation_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(description->operation_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(description->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(description->bias);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  if (type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *layout = new cublasLtMatrixLayoutOpaque_t{static_cast<std::int64_t>(rows),
                                             static_cast<std::int64_t>(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return bytes == sizeof(std::uint64_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  }
  std::uint32_t alignment = 0;
  if (bytes != sizeof alignment) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&alignment, value, bytes);
  preference->alignment = std::min(preference->alignment, alignment);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  results[0] = {{{preference->alignment}}, 0, CUBLAS_STATUS_SUCCESS};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t,
                              cudaStream_t stream) {
  const std::uint64_t alignment = algorithm->data[0];
  if (c != d || !is_aligned(a, alignment) || !is_aligned(b, alignment) ||
      !is_aligned(d, alignment)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool transposed_a = description->operation_a == CUBLAS_OP_T;
  const bool transposed_b = description->operation_b == CUBLAS_OP_T;
  const std::int64_t k = transposed_a ? layout_a->rows : layout_a->columns;
  const std::int64_t m = transposed_a ? layout_a->columns : layout_a->rows;
  const std::int64_t n = transposed_b ? layout_b->rows : layout_b->columns;
  if (m != layout_d->rows || n != layout_d->columns ||
      k != (transposed_b ? layout_b->columns : layout_b->rows)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool has_bias = description->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  return enqueue(stream, "cublasLtMatmul",
                 Product<float>{m,
                                n,
                                k,
                                *static_cast<const float*>(alpha),
                                *static_cast<const float*>(beta),
                                {static_cast<const float*>(a), layout_a->leading, transposed_a},
                                {static_cast<const float*>(b), layout_b->leading, transposed_b},
                                {static_cast<float*>(d), layout_d->leading, false},
                                0,
                                0,
                                0,
                                1,
                                has_bias ? description->bias : nullptr,
                                description->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS,
                                description->bits});
}

// A test double of cuBLAS and cublasLt.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "framework/base/dtype.h"
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

float value_of(bfloat16 factor) {
  return static_cast<float>(factor);
}
template <class T>
T value_of(T factor) {
  return factor;
}

// What happens to a product of floats beside: bits of cublasLtEpilogue_t, whose names say which.
struct Epilogue {
  unsigned kind = CUBLASLT_EPILOGUE_DEFAULT;
  float* bias = nullptr;
  void* aux = nullptr;
  std::int64_t leading = 0;

  bool has(unsigned bits) const { return (kind & bits) == bits; }
  // Of element `row` of a column. The bits of a mask lie in the order of the rows here; where the
  // library has them is its own affair.
  float operator()(std::int64_t row, std::int64_t column, float value) const {
    const std::int64_t at = row + column * leading;
    if (has(CUBLASLT_EPILOGUE_BIAS)) value += bias[row];
    if (has(CUBLASLT_EPILOGUE_RELU)) {
      if (has(CUBLASLT_EPILOGUE_RELU_AUX)) set_bit(at, value > 0);
      // A NaN becomes zero, as users of the library found.
      value = value > 0 ? value : 0;
    }
    if (has(CUBLASLT_EPILOGUE_GELU)) {
      if (has(CUBLASLT_EPILOGUE_GELU_AUX)) static_cast<float*>(aux)[at] = value;
      value = static_cast<float>(value * gelu_factor(value));
    }
    if (has(CUBLASLT_EPILOGUE_DRELU) && !bit(at)) value = 0;
    if (has(CUBLASLT_EPILOGUE_DGELU))
      value = static_cast<float>(value * gelu_slope(static_cast<const float*>(aux)[at]));
    return value;
  }
  bool is_valid(std::int64_t rows) const {
    const bool mask = has(CUBLASLT_EPILOGUE_RELU_AUX) || has(CUBLASLT_EPILOGUE_DRELU);
    const bool input = has(CUBLASLT_EPILOGUE_GELU_AUX) || has(CUBLASLT_EPILOGUE_DGELU);
    const bool biased = has(CUBLASLT_EPILOGUE_BIAS) || has(CUBLASLT_EPILOGUE_BGRADB);
    if (biased && bias == nullptr) return false;
    if (!mask && !input) return true;
    return aux != nullptr && reinterpret_cast<std::uintptr_t>(aux) % 16 == 0 && leading >= rows &&
           leading % (mask ? 128 : 8) == 0;
  }

 private:
  void set_bit(std::int64_t at, bool on) const {
    auto& byte = static_cast<std::uint8_t*>(aux)[at / 8];
    const auto one = static_cast<std::uint8_t>(1u << (at % 8));
    byte = static_cast<std::uint8_t>(on ? byte | one : byte & ~one);
  }
  bool bit(std::int64_t at) const {
    return (static_cast<const std::uint8_t*>(aux)[at / 8] >> (at % 8) & 1) != 0;
  }
  // gelu(x) = x * factor(x), in the form with tanh, and its derivative.
  static double inner(double x) { return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }
  static double gelu_factor(double x) { return 0.5 * (1 + std::tanh(inner(x))); }
  static double gelu_slope(double x) {
    const double t = std::tanh(inner(x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  }
};

// c = epilogue(alpha * a * b + beta * c), all column-major; factors are F, or floats of fewer bits.
template <class T, class F>
struct Product {
  std::int64_t m, n, k;
  T alpha, beta;
  Matrix<const F> a, b;
  Matrix<T> c;
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0, batch = 1;
  int bits = 23;  // of the factors, where they are floats
  Epilogue epilogue = {};

  void compute() const {
    std::vector<T> packed_a(static_cast<std::size_t>(m * k)), column(static_cast<std::size_t>(m));
    for (std::int64_t i = 0; i < batch; ++i) {
      const Matrix<const F> left{a.data + i * a_stride, a.leading, a.transposed};
      const Matrix<const F> right{b.data + i * b_stride, b.leading, b.transposed};
      const Matrix<T> result{c.data + i * c_stride, c.leading, false};
      for (std::int64_t l = 0; l < k; ++l) {
        for (std::int64_t row = 0; row < m; ++row) {
          packed_a[static_cast<std::size_t>(row + l * m)] =
              rounded(value_of(left.at(row, l)), bits);
        }
      }
      for (std::int64_t j = 0; j < n; ++j)
        compute_column(packed_a.data(), right, j, column.data(), result);
    }
  }

 private:
  void compute_column(const T* packed_a, const Matrix<const F>& right, std::int64_t j, T* column,
                      const Matrix<T>& result) const {
    std::fill_n(column, m, T(0));
    T sum_of_b = 0;
    for (std::int64_t l = 0; l < k; ++l) {
      const T factor = rounded(value_of(right.at(l, j)), bits);
      sum_of_b += value_of(right.at(l, j));
      const T* const from = packed_a + l * m;
      for (std::int64_t row = 0; row < m; ++row) column[row] += from[row] * factor;
    }
    for (std::int64_t row = 0; row < m; ++row) {
      T value = alpha * column[row];
      if (beta != T(0)) value += beta * result.at(row, j);
      if constexpr (std::is_same_v<T, float>) value = epilogue(row, j, value);
      result.at(row, j) = value;
    }
    if (epilogue.has(CUBLASLT_EPILOGUE_BGRADB)) epilogue.bias[j] = static_cast<float>(sum_of_b);
  }
};

template <class P>
class ProductCall final : public KernelCall {
 public:
  explicit ProductCall(const P& product) : product_(product) {}
  void run() const override { product_.compute(); }

 private:
  P product_;
};

template <class P>
cublasStatus_t enqueue(cudaStream_t stream, const char* name, const P& product) {
  const auto rows = [](const auto& matrix, std::int64_t r, std::int64_t c) {
    return std::max<std::int64_t>(1, matrix.transposed ? c : r);
  };
  const bool valid = product.m >= 0 && product.n >= 0 && product.k >= 0 && product.batch >= 0 &&
                     product.a.leading >= rows(product.a, product.m, product.k) &&
                     product.b.leading >= rows(product.b, product.k, product.n) &&
                     product.c.leading >= rows(product.c, product.m, product.n) &&
                     product.epilogue.is_valid(product.m);
  if (!valid) return CUBLAS_STATUS_INVALID_VALUE;
  const cudaError_t status = enqueue_task(stream, name, std::make_unique<ProductCall<P>>(product));
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

bool is_aligned(const void* address, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

}  // namespace
}  // namespace lockstep::emulation

using namespace lockstep::emulation;
using lockstep::bfloat16;

struct cublasContext {
  cudaStream_t stream = nullptr;
};
struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t operation_a = CUBLAS_OP_N, operation_b = CUBLAS_OP_N;
  Epilogue epilogue = {};
  int bits = 23;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
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
  const auto run = [&]<class T, class F>(T, F, std::optional<int> bits) {
    if (!bits) return CUBLAS_STATUS_NOT_SUPPORTED;
    return enqueue(handle->stream, "cublasGemmStridedBatchedEx",
                   Product<T, F>{m,
                                 n,
                                 k,
                                 *static_cast<const T*>(alpha),
                                 *static_cast<const T*>(beta),
                                 {static_cast<const F*>(a), a_leading, operation_a == CUBLAS_OP_T},
                                 {static_cast<const F*>(b), b_leading, operation_b == CUBLAS_OP_T},
                                 {static_cast<T*>(c), c_leading, false},
                                 a_stride,
                                 b_stride,
                                 c_stride,
                                 batch,
                                 *bits});
  };
  if (a_type != b_type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (a_type == CUDA_R_16BF && c_type == CUDA_R_32F)
    return run(float{}, bfloat16{}, bits_of_factors(compute));
  if (a_type != c_type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (c_type == CUDA_R_32F) return run(float{}, float{}, bits_of_factors(compute));
  return run(double{}, double{}, compute == CUBLAS_COMPUTE_64F ? std::optional(52) : std::nullopt);
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
      return set(description->epilogue.kind);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(description->epilogue.bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(description->epilogue.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(description->epilogue.leading);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  if (type != CUDA_R_32F && type != CUDA_R_16BF) return CUBLAS_STATUS_NOT_SUPPORTED;
  *layout = new cublasLtMatrixLayoutOpaque_t{type, static_cast<std::int64_t>(rows),
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
  const auto run = [&]<class F>(F) {
    return enqueue(
        stream, "cublasLtMatmul",
        Product<float, F>{.m = m,
                          .n = n,
                          .k = k,
                          .alpha = *static_cast<const float*>(alpha),
                          .beta = *static_cast<const float*>(beta),
                          .a = {static_cast<const F*>(a), layout_a->leading, transposed_a},
                          .b = {static_cast<const F*>(b), layout_b->leading, transposed_b},
                          .c = {static_cast<float*>(d), layout_d->leading, false},
                          .bits = description->bits,
                          .epilogue = description->epilogue});
  };
  if (layout_d->type != CUDA_R_32F || layout_a->type != layout_b->type)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return layout_a->type == CUDA_R_16BF ? run(bfloat16{}) : run(float{});
}

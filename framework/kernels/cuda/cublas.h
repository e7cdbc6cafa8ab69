// cuBLAS for one stream: its handle, its workspace, and the two products that the kernels need.
//
// Results repeat from run to run: the workspace is the stream's own and of one size, so that cuBLAS
// makes the same choices. They are computed in the type of the result, unless float32 is to be
// rounded for matrix units (ProductPrecision) or the factors are bfloat16 already.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "framework/base/dtype.h"
#include "framework/device/context.h"
#include "framework/device/cuda/cuda_memory.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/cublas_library.h"
#include "framework/kernels/operations.h"

namespace lockstep::kernels::cuda {

// A column-major matrix as cuBLAS sees it, possibly the transpose of what is stored.
struct BlasMatrix {
  void* data = nullptr;
  std::int64_t leading = 1;  // distance of the stored columns, in elements
  bool transposed = false;
  std::int64_t batch_stride = 0;
};

// c[m, n] = a[m, k] * b[k, n] + beta * c, for `batch` matrices.
struct BlasProduct {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  BlasMatrix a, b, c;              // c is not transposed
  double beta = 0;                 // 0 or 1; with 0 c is not read
  DType factors = DType::float32;  // as `result`, or bfloat16 beside float32
  DType result = DType::float32;
};

// What cublasLt does beside the product.
struct Epilogue {
  cublasLtEpilogue_t kind;
  // Added to c, one value for each of its rows; or, for BGRADB, the sums over b's rows that are
  // written, one for each of its columns.
  float* bias = nullptr;
  // What the gradient of the activation is computed from, c's shape in columns of `leading`
  // elements: RELU's mask of bits (a multiple of 128 of them) or GELU's input (a multiple of 8).
  void* saved = nullptr;
  std::int64_t leading = 0;
};

class Cublas {
 public:
  // The one of this context's compute stream, made when it is first asked for.
  static Cublas& of(device::Context& context) { return context.attachment<Cublas>(); }

  // On the context's compute stream at first.
  explicit Cublas(device::Context& context);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // Where products go from now on. All that were enqueued before must be done by the time that
  // those on the new stream begin, since they share the workspace.
  void use_stream(const device::CudaStream& stream);
  // Of products of float32 from now on.
  void set_precision(ProductPrecision precision);
  ProductPrecision precision() const { return precision_; }
  void multiply(const BlasProduct& product);
  // The same with an epilogue, for one product with a result of float32. Returns false where
  // cublasLt has no algorithm for it.
  bool multiply(const BlasProduct& product, const Epilogue& epilogue);

 private:
  // What an algorithm is chosen by: extents, distances of columns, the last of them those of what
  // the epilogue saves, transpositions, whether c is read, the factors' type, the epilogue, and the
  // alignment in bytes of all operands.
  using Problem =
      std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                 std::int64_t, bool, bool, bool, DType, cublasLtEpilogue_t, std::uint32_t>;
  struct Choice {
    bool found = false;
    cublasLtMatmulAlgo_t algorithm{};
  };

  cublasComputeType_t compute_type(const BlasProduct& product) const;
  void check(cublasStatus_t status, const char* call) const;
  cublasLtHandle_t lt_handle() const { return reinterpret_cast<cublasLtHandle_t>(handle_); }

  const CublasLibrary& library_;
  const device::CudaStream* stream_;
  device::CudaDeviceMemory memory_;
  void* workspace_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  ProductPrecision precision_ = ProductPrecision::float32;
  std::map<Problem, Choice> choices_;
};

}  // namespace lockstep::kernels::cuda

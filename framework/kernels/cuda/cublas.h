// cuBLAS for one context: its handle, its workspace, and the two products that the kernels need.
//
// Results repeat from run to run: the workspace is the context's own and of one size, so that
// cuBLAS makes the same choices, and all products go to one stream. They are computed in the type
// of the operands, unless float32 is to be rounded for matrix units (ProductPrecision).
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
  BlasMatrix a, b, c;  // c is not transposed
  double beta = 0;     // 0 or 1; with 0 c is not read
};

// What cublasLt does to a product before it is stored.
enum class Epilogue : std::uint8_t { bias, bias_relu };

class Cublas {
 public:
  // The one of this context, made when it is first asked for.
  static Cublas& of(device::Context& context) { return context.attachment<Cublas>(); }

  explicit Cublas(device::Context& context);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // Of products of float32 from now on.
  void set_precision(ProductPrecision precision);
  void multiply(const BlasProduct& product, DType dtype);
  // c = epilogue(a * b + bias), float32, `bias` one value for each row of c; beta and batch of the
  // product are 0 and 1. Returns false where cublasLt has no algorithm for it.
  bool multiply(const BlasProduct& product, Epilogue epilogue, const float* bias);

 private:
  // What an algorithm is chosen by; the last is the alignment in bytes of all operands.
  using Problem = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                             std::int64_t, bool, bool, Epilogue, std::uint32_t>;
  struct Choice {
    bool found = false;
    cublasLtMatmulAlgo_t algorithm{};
  };

  void check(cublasStatus_t status, const char* call) const;
  cublasLtHandle_t lt_handle() const { return reinterpret_cast<cublasLtHandle_t>(handle_); }

  const CublasLibrary& library_;
  const device::CudaStream& stream_;
  device::CudaDeviceMemory memory_;
  void* workspace_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  cublasComputeType_t float_compute_ = CUBLAS_COMPUTE_32F;
  std::map<Problem, Choice> choices_;
};

}  // namespace lockstep::kernels::cuda

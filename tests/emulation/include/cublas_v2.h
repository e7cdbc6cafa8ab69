// The calls of cuBLAS that this project uses, for the emulated GPUs: a test double that multiplies
// by plain loops, in the order of the stream, on one thread. Names and meaning are those of the
// toolkit's documentation.
#pragma once

#include <cstddef>

#include "library_types.h"
#include "tests/emulation/runtime_api.h"

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasComputeType_t {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };

using cublasHandle_t = struct cublasContext*;

const char* cublasGetStatusName(cublasStatus_t status);
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t bytes);
// Both factors are of the result's type here, or bfloat16 beside a float. The fast ways to compute
// floats round both factors to nearest, of equals to even.
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t operation_a,
                                          cublasOperation_t operation_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType_t a_type,
                                          int a_leading, long long a_stride, const void* b,
                                          cudaDataType_t b_type, int b_leading, long long b_stride,
                                          const void* beta, void* c, cudaDataType_t c_type,
                                          int c_leading, long long c_stride, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t algorithm);

// CublasLibrary: cuBLAS's functions, found at run time, so that programs start on machines without
// the toolkit and those that never multiply on a GPU do not load half a gigabyte.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

namespace lockstep::kernels::cuda {

struct CublasLibrary {
  // Loaded at the first call and never unloaded. StartupError where a library is missing or lacks
  // a function. Thread-safe.
  static const CublasLibrary& get();

  decltype(&::cublasCreate_v2) create;
  decltype(&::cublasDestroy_v2) destroy;
  decltype(&::cublasSetStream_v2) set_stream;
  decltype(&::cublasSetWorkspace_v2) set_workspace;
  // Spelled out: the name is overloaded.
  cublasStatus_t (*gemm_strided_batched)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                         int, int, const void*, const void*, cudaDataType_t, int,
                                         long long, const void*, cudaDataType_t, int, long long,
                                         const void*, void*, cudaDataType_t, int, long long, int,
                                         cublasComputeType_t, cublasGemmAlgo_t);
  decltype(&::cublasGetStatusName) status_name;

  decltype(&::cublasLtMatmulDescCreate) operation_create;
  decltype(&::cublasLtMatmulDescDestroy) operation_destroy;
  decltype(&::cublasLtMatmulDescSetAttribute) operation_set;
  decltype(&::cublasLtMatrixLayoutCreate) layout_create;
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) find_algorithm;
  decltype(&::cublasLtMatmul) matmul;
};

}  // namespace lockstep::kernels::cuda

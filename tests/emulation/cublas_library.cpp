// What the kernels call on emulated GPUs instead of the toolkit's cuBLAS.
#include "framework/kernels/cuda/cublas_library.h"

namespace lockstep::kernels::cuda {

const CublasLibrary& CublasLibrary::get() {
  static const CublasLibrary functions{
      .create = cublasCreate_v2,
      .destroy = cublasDestroy_v2,
      .set_stream = cublasSetStream_v2,
      .set_workspace = cublasSetWorkspace_v2,
      .gemm_strided_batched = cublasGemmStridedBatchedEx,
      .status_name = cublasGetStatusName,
      .operation_create = cublasLtMatmulDescCreate,
      .operation_destroy = cublasLtMatmulDescDestroy,
      .operation_set = cublasLtMatmulDescSetAttribute,
      .layout_create = cublasLtMatrixLayoutCreate,
      .layout_destroy = cublasLtMatrixLayoutDestroy,
      .preference_create = cublasLtMatmulPreferenceCreate,
      .preference_destroy = cublasLtMatmulPreferenceDestroy,
      .preference_set = cublasLtMatmulPreferenceSetAttribute,
      .find_algorithm = cublasLtMatmulAlgoGetHeuristic,
      .matmul = cublasLtMatmul,
  };
  return functions;
}

}  // namespace lockstep::kernels::cuda

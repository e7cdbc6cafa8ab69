#include "framework/kernels/cuda/cublas_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "framework/base/error.h"

namespace lockstep::kernels::cuda {
namespace {

class Loaded {
 public:
  explicit Loaded(const char* name) : name_(fmt::format("{}.so.{}", name, CUBLAS_VER_MAJOR)) {
    library_ = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library_ == nullptr) {
      throw StartupError(
          fmt::format("computing on a GPU needs {}, which is missing: {}", name_, dlerror()));
    }
  }

  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw StartupError(fmt::format("{} has no {}", name_, name));
  }

 private:
  std::string name_;
  void* library_;
};

CublasLibrary load() {
  CublasLibrary functions;
  const Loaded blas("libcublas"), blas_lt("libcublasLt");
  blas.find("cublasCreate_v2", functions.create);
  blas.find("cublasDestroy_v2", functions.destroy);
  blas.find("cublasSetStream_v2", functions.set_stream);
  blas.find("cublasSetWorkspace_v2", functions.set_workspace);
  blas.find("cublasGemmStridedBatchedEx", functions.gemm_strided_batched);
  blas.find("cublasGetStatusName", functions.status_name);
  blas_lt.find("cublasLtMatmulDescCreate", functions.operation_create);
  blas_lt.find("cublasLtMatmulDescDestroy", functions.operation_destroy);
  blas_lt.find("cublasLtMatmulDescSetAttribute", functions.operation_set);
  blas_lt.find("cublasLtMatrixLayoutCreate", functions.layout_create);
  blas_lt.find("cublasLtMatrixLayoutDestroy", functions.layout_destroy);
  blas_lt.find("cublasLtMatmulPreferenceCreate", functions.preference_create);
  blas_lt.find("cublasLtMatmulPreferenceDestroy", functions.preference_destroy);
  blas_lt.find("cublasLtMatmulPreferenceSetAttribute", functions.preference_set);
  blas_lt.find("cublasLtMatmulAlgoGetHeuristic", functions.find_algorithm);
  blas_lt.find("cublasLtMatmul", functions.matmul);
  return functions;
}

}  // namespace

const CublasLibrary& CublasLibrary::get() {
  static const CublasLibrary functions = load();
  return functions;
}

}  // namespace lockstep::kernels::cuda

// Errors of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "framework/base/error.h"

namespace lockstep::device {

// Where a CUDA call was made, for error messages. `rank` < 0 where it is not known yet.
struct CudaPlace {
  int device = 0;
  int rank = -1;
};

// A CUDA call failed. The message names call, device, rank and CUDA's own name for the error.
class CudaError : public Error {
 public:
  CudaError(cudaError_t status, const std::string& message) : Error(message), status_(status) {}
  cudaError_t status() const { return status_; }

 private:
  cudaError_t status_;
};

// Throws unless `status` is cudaSuccess: CaptureError where it says that something cannot be
// captured, CudaError otherwise.
void check_cuda(cudaError_t status, const char* call, const CudaPlace& place);

}  // namespace lockstep::device

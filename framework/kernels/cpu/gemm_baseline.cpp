// For any processor.
#include "framework/kernels/cpu/gemm_tile.h"

namespace lockstep::kernels {

extern const GemmKernels gemm_baseline;
const GemmKernels gemm_baseline{"baseline", &multiply_best<float>, &multiply_best<double>,
                                rounds_once};

}  // namespace lockstep::kernels

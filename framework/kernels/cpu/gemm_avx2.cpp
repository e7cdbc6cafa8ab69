// Compiled for x86-64-v3, see CMakeLists.txt.
#ifdef __x86_64__
#include "framework/kernels/cpu/gemm_tile.h"

namespace lockstep::kernels {

extern const GemmKernels gemm_avx2;
const GemmKernels gemm_avx2{"AVX2", &multiply_best<float>, &multiply_best<double>, rounds_once};

}  // namespace lockstep::kernels
#endif

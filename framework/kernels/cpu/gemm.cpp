#include "framework/kernels/cpu/gemm.h"

#include <fmt/format.h>

#include <string>

#include "framework/kernels/kernels.h"

namespace lockstep::kernels {

extern const GemmKernels gemm_avx512, gemm_avx2, gemm_baseline;

namespace {

struct Runnable {
  const GemmKernels* kernels[3] = {};
  std::size_t count = 0;

  Runnable() {
#ifdef __x86_64__
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi2");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512) kernels[count++] = &gemm_avx512;
    if (avx2) kernels[count++] = &gemm_avx2;
#endif
    kernels[count++] = &gemm_baseline;
  }
};

}  // namespace

std::span<const GemmKernels* const> gemm_kernels() {
  static const Runnable runnable;
  return {runnable.kernels, runnable.count};
}

void gemm(const GemmArguments<float>& arguments) {
  gemm_kernels()[0]->float32(arguments);
}
void gemm(const GemmArguments<double>& arguments) {
  gemm_kernels()[0]->float64(arguments);
}

std::string cpu_kernels_description() {
  return fmt::format("{} matrix products", gemm_kernels()[0]->name);
}

}  // namespace lockstep::kernels

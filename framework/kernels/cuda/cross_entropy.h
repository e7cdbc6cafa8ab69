// Launchers of cross-entropy and accuracy; logits are contiguous [rows, classes] of float or
// double.
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::kernels::cuda {

struct CrossEntropyOptions {
  std::int64_t rows = 0, classes = 0;
  std::int64_t ignore_index = 0;
  // Smoothing mixes the target's distribution with the uniform one (Szegedy et al. 2016): weight
  // `on` at the target and `off` at every class.
  double on = 1, off = 0;
};

// What all rows came to, in device memory until the host asks.
struct LossTotal {
  double sum;
  std::int64_t count;
  std::int64_t first_bad_row;  // whose target is no class; `rows` if there is none
};

// `losses` has room for one double a row. `grad`, unless nullptr, gets the gradient of the sum.
template <class T>
void launch_cross_entropy(const device::CudaStream& stream, const CrossEntropyOptions& options,
                          const T* logits, const std::int64_t* targets, T* grad, double* losses,
                          LossTotal* total);

// Adds to *correct how many rows have their first largest logit at the target.
template <class T>
void launch_count_correct(const device::CudaStream& stream, const CrossEntropyOptions& options,
                          const T* logits, const std::int64_t* targets, unsigned* correct);

}  // namespace lockstep::kernels::cuda

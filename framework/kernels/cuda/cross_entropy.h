// Launchers of cross-entropy and accuracy; logits are contiguous [rows, classes] of float or
// double.
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/noted_error.h"

namespace lockstep::kernels::cuda {

struct CrossEntropyRows {
  std::int64_t rows = 0, classes = 0;
  std::int64_t ignore_index = 0;
  // Smoothing mixes the target's distribution with the uniform one (Szegedy et al. 2016): weight
  // `on` at the target and `off` at every class.
  double on = 1, off = 0;
};

// Where what all rows came to goes.
template <class T>
struct LossTotal {
  double* total = nullptr;  // sum and count
  bool accumulate = false;
  T* loss = nullptr;  // scale * sum; nullptr where nobody wants it
  double scale = 1;
  NotedError* noted = nullptr;
};

// `losses` has room for one double a row. `grad`, unless nullptr, gets the gradient of the sum.
template <class T>
void launch_cross_entropy(const device::CudaStream& stream, const CrossEntropyRows& rows,
                          const T* logits, const std::int64_t* targets, T* grad, double* losses,
                          const LossTotal<T>& total);

// *correct (+)= how many rows have their first largest logit at the target. `hits` has room for one
// double a row.
template <class T>
void launch_count_correct(const device::CudaStream& stream, const CrossEntropyRows& rows,
                          const T* logits, const std::int64_t* targets, double* hits,
                          double* correct, bool accumulate);

}  // namespace lockstep::kernels::cuda

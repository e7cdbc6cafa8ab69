// How kernels note a value that they cannot use.
#pragma once

#include "framework/kernels/cuda/grid.cuh"
#include "framework/kernels/noted_error.h"

namespace lockstep::kernels::cuda {

// By one thread of a kernel. The first of a context's kernels that has something to note wins; they
// follow each other on one stream.
__device__ inline void note(NotedError* noted, const NotedError& error) {
  if (noted->kind == NotedError::none) *noted = error;
}

}  // namespace lockstep::kernels::cuda

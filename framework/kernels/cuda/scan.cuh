// Sums over the threads of a block, up to each.
#pragma once

#include "framework/kernels/cuda/grid.cuh"

namespace lockstep::kernels::cuda {

// The sum of the values of the threads up to this one, itself included. All block_threads threads
// call this; T is an integer.
template <class T>
__device__ T sum_up_to_thread(T value) {
  LOCKSTEP_SHARED(sums, T[block_threads]);
  sums[threadIdx.x] = value;
  __syncthreads();
  for (unsigned distance = 1; distance < block_threads; distance *= 2) {
    const T before = threadIdx.x >= distance ? sums[threadIdx.x - distance] : T(0);
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  const T sum = sums[threadIdx.x];
  __syncthreads();
  return sum;
}

}  // namespace lockstep::kernels::cuda

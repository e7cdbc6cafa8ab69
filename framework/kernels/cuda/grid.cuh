// The words of framework/device/cuda/chunk.cuh that kernels of this folder are written in.
#pragma once

#include "framework/device/cuda/chunk.cuh"

namespace lockstep::kernels::cuda {

using device::block_threads;
using device::blocks_for;
using device::Chunk;
using device::grid_stride;
using device::grid_thread;
using device::load_chunk;
using device::store_chunk;
using device::unaligned_head;

}  // namespace lockstep::kernels::cuda

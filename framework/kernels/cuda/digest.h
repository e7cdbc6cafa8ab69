// The launcher of digests (framework/kernels/digest.h).
#pragma once

#include <cstdint>

#include "framework/device/cuda/cuda_stream.h"

namespace lockstep::kernels::cuda {

// Adds to *digest the hashes of the blocks of bytes[0..size), the first of which has seed `seed`.
void launch_digest(const device::CudaStream& stream, const void* bytes, std::int64_t size,
                   std::uint64_t seed, unsigned long long* digest);

}  // namespace lockstep::kernels::cuda

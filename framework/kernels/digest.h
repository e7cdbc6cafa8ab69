// Digests of tensors: the sum, modulo 2^64, of the hashes of blocks, each with a seed of its own.
// So blocks may be taken in any order, by any thread, on any kind of device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "framework/kernels/operations.h"
#include "framework/tensor/tensor.h"

namespace lockstep::kernels {

// base::hash64 of a block, filled up with zeros where it is too short.
std::uint64_t digest_of_block(std::span<const std::byte> block, std::uint64_t seed);

// Throws UsageError unless tensors are contiguous, with as many seeds and digests.
void require_digest(std::span<const Tensor> tensors, std::span<const std::uint64_t> seeds,
                    const Tensor& digests);

}  // namespace lockstep::kernels

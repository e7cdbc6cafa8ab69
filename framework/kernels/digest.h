// Digests of tensors: the sum, modulo 2^64, of the hashes of blocks, each with a seed of its own.
// So blocks may be taken in any order, by any thread, on any kind of device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "framework/tensor/tensor.h"

namespace lockstep::kernels {

// Large enough to hash at full speed, small enough to share among threads.
inline constexpr std::size_t digest_block_bytes = std::size_t{64} << 10;
// A shorter block is hashed as if zeros followed: XXH3 has another form for each range of short
// lengths, and kernels of a GPU have the long one only.
inline constexpr std::size_t least_hashed_bytes = 256;

// base::hash64 of a block, filled up with zeros where it is too short.
std::uint64_t digest_of_block(std::span<const std::byte> block, std::uint64_t seed);

// Throws UsageError unless tensors are contiguous, with as many seeds and digests.
void check_digest(std::span<const Tensor> tensors, std::span<const std::uint64_t> seeds,
                  const Tensor& digests);

}  // namespace lockstep::kernels

#include <algorithm>
#include <atomic>
#include <vector>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/digest.h"

namespace lockstep::kernels {
namespace {

struct Block {
  std::span<const std::byte> bytes;
  std::uint64_t seed;
  std::int64_t* digest;
};

// Of all tensors, so that threads share many small ones too.
std::vector<Block> blocks_of(std::span<const Tensor> tensors, std::span<const std::uint64_t> seeds,
                             std::span<std::int64_t> digests) {
  std::vector<Block> blocks;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::span bytes(static_cast<const std::byte*>(tensors[t].data()), tensors[t].bytes());
    std::uint64_t seed = seeds[t];
    for (std::size_t begin = 0; begin < bytes.size(); begin += digest_block_bytes)
      blocks.push_back({bytes.subspan(begin, std::min(digest_block_bytes, bytes.size() - begin)),
                        seed++, &digests[t]});
  }
  return blocks;
}

}  // namespace

void CpuKernels::digest(std::span<const Tensor> tensors, std::span<const std::uint64_t> seeds,
                        const Tensor& digests) const {
  require_digest(tensors, seeds, digests);
  const std::span<std::int64_t> sums = digests.elements<std::int64_t>();
  std::fill(sums.begin(), sums.end(), 0);
  const std::vector<Block> blocks = blocks_of(tensors, seeds, sums);
  digests.context().threads().for_each(
      static_cast<std::int64_t>(blocks.size()), [&](std::int64_t b) {
        const Block& block = blocks[static_cast<std::size_t>(b)];
        const auto hash = static_cast<std::int64_t>(digest_of_block(block.bytes, block.seed));
        std::atomic_ref(*block.digest).fetch_add(hash, std::memory_order_relaxed);
      });
}

}  // namespace lockstep::kernels

#include "framework/kernels/digest.h"

#include <algorithm>
#include <array>

#include "framework/base/hash.h"
#include "framework/kernels/dispatch.h"

namespace lockstep::kernels {

std::uint64_t digest_of_block(std::span<const std::byte> block, std::uint64_t seed) {
  if (block.size() >= least_hashed_bytes) return base::hash64(block, seed);
  std::array<std::byte, least_hashed_bytes> filled{};
  std::copy(block.begin(), block.end(), filled.begin());
  return base::hash64(filled, seed);
}

void require_digest(std::span<const Tensor> tensors, std::span<const std::uint64_t> seeds,
                    const Tensor& digests) {
  const auto count = static_cast<std::int64_t>(tensors.size());
  if (seeds.size() != tensors.size())
    throw UsageError(
        fmt::format("digest: found {} seeds for {} tensors", seeds.size(), tensors.size()));
  require_operand("digest", "digests", digests, {count}, DType::int64);
  for (const Tensor& tensor : tensors) require_contiguous("digest", "tensor", tensor);
}

}  // namespace lockstep::kernels

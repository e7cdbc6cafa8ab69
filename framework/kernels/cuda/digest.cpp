#include "framework/kernels/cuda/digest.h"

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/digest.h"

namespace lockstep::kernels::cuda {

void CudaKernels::digest(std::span<const Tensor> tensors, std::span<const std::uint64_t> seeds,
                         const Tensor& digests) const {
  require_digest(tensors, seeds, digests);
  fill(0, digests);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    auto* const digest = reinterpret_cast<unsigned long long*>(digests.data<std::int64_t>() + t);
    launch_digest(stream_of(digests), tensors[t].data(),
                  static_cast<std::int64_t>(tensors[t].bytes()), seeds[t], digest);
  }
}

}  // namespace lockstep::kernels::cuda

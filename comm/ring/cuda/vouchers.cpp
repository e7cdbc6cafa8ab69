#include "comm/ring/cuda/vouchers.h"

#include <cuda_runtime.h>

#include "comm/ring/cuda/kernels.h"

namespace lockstep::comm::ring::cuda {

using device::check_cuda;

Vouchers::Vouchers(const device::CudaStream& stream, int own, int count)
    : memory_(stream.place()),
      buffer_(memory_, (static_cast<std::size_t>(count) + 1) * sizeof(std::uint64_t)) {
  auto* const words = static_cast<std::uint64_t*>(buffer_.data());
  words_ = {.words = words, .epoch = words + count, .own = own, .count = count};
  load_voucher_kernels(stream);
  check_cuda(cudaMemsetAsync(words, 0, buffer_.bytes(), stream.native()), "cudaMemsetAsync",
             stream.place());
  check_cuda(cudaStreamSynchronize(stream.native()), "cudaStreamSynchronize", stream.place());
}

}  // namespace lockstep::comm::ring::cuda

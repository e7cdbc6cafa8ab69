#include "comm/ring/cuda/low_latency.cuh"

#include "comm/ring/cuda/kernels.h"
#include "comm/ring/cuda/load.cuh"

namespace lockstep::comm::ring::cuda {

void launch_low_latency(const device::CudaStream& stream, int channels, const World& world,
                        const Call& call, bool twice) {
  base::visit_dtype(call.signature.dtype, [&]<class T>(base::TypeTag<T>) {
    device::launch(stream, {static_cast<unsigned>(channels), world.layout.shape.threads},
                   low_latency_kernel<T>, world, call, twice);
  });
}

int load_low_latency_kernels(const device::CudaStream& stream, unsigned threads) {
  return load_for_each_dtype(stream, threads,
                             []<class T>(base::TypeTag<T>) { return low_latency_kernel<T>; });
}

}  // namespace lockstep::comm::ring::cuda

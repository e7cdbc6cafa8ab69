#include "comm/ring/cuda/ring_kernel.cuh"

#include "comm/ring/cuda/kernels.h"
#include "comm/ring/cuda/load.cuh"

namespace lockstep::comm::ring::cuda {

void launch_ring(const device::CudaStream& stream, int channels, const World& world,
                 const Call& call, const RingPlan& plan) {
  base::visit_dtype(call.signature.dtype, [&]<class T>(base::TypeTag<T>) {
    device::launch(stream, {static_cast<unsigned>(channels), world.layout.shape.threads},
                   ring_kernel<T, Protocol>, world, call, plan);
  });
}

int load_ring_kernels(const device::CudaStream& stream, unsigned threads) {
  return load_for_each_dtype(stream, threads,
                             []<class T>(base::TypeTag<T>) { return ring_kernel<T, Protocol>; });
}

}  // namespace lockstep::comm::ring::cuda

#include "framework/kernels/cuda/grid.cuh"
#include "framework/kernels/cuda/normalize_channels.h"

namespace lockstep::kernels::cuda {
namespace {

constexpr int lanes = 4;  // of a thread: one access of 16 bytes to a float result

template <class Stored>
struct alignas(lanes * sizeof(Stored)) StoredLanes {
  Stored lane[lanes];
};

// Starts of channels are multiples of `lanes` where `aligned`, so that four neighbours share one.
template <class Stored, class T>
__global__ void normalize_channels(Normalization<Stored, T> job, bool aligned) {
  if (aligned) {
    for (std::int64_t i = grid_thread(); i < job.count / lanes; i += grid_stride()) {
      const std::int64_t channel = i * lanes / job.width % job.channels;
      const T factor = job.factor[channel], offset = job.offset[channel];
      const auto in = reinterpret_cast<const StoredLanes<Stored>*>(job.x)[i];
      Chunk<lanes, T> out;
#pragma unroll
      for (int k = 0; k < lanes; ++k) out.lane[k] = static_cast<T>(in.lane[k]) * factor + offset;
      store_chunk(job.out + i * lanes, out);
    }
  } else {
    for (std::int64_t i = grid_thread(); i < job.count; i += grid_stride()) {
      const std::int64_t channel = i / job.width % job.channels;
      job.out[i] = static_cast<T>(job.x[i]) * job.factor[channel] + job.offset[channel];
    }
  }
}

}  // namespace

template <class Stored, class T>
void launch_normalize_channels(const device::CudaStream& stream,
                               const Normalization<Stored, T>& job) {
  if (job.count == 0) return;
  const bool aligned = job.width % lanes == 0 &&
                       reinterpret_cast<std::uintptr_t>(job.x) % sizeof(StoredLanes<Stored>) == 0 &&
                       reinterpret_cast<std::uintptr_t>(job.out) % 16 == 0;
  const std::int64_t tasks = aligned ? job.count / lanes : job.count;
  device::launch(stream, {blocks_for(tasks), block_threads}, normalize_channels<Stored, T>, job,
                 aligned);
}

#define LOCKSTEP_NORMALIZE(Stored, T)                                \
  template void launch_normalize_channels(const device::CudaStream&, \
                                          const Normalization<Stored, T>&);
LOCKSTEP_NORMALIZE(std::uint8_t, float)
LOCKSTEP_NORMALIZE(std::uint8_t, double)
LOCKSTEP_NORMALIZE(float, float)
LOCKSTEP_NORMALIZE(float, double)
#undef LOCKSTEP_NORMALIZE

}  // namespace lockstep::kernels::cuda

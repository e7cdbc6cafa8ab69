#include "framework/kernels/cuda/dropout.h"

#include "framework/base/division.h"
#include "framework/kernels/cuda/grid.cuh"

namespace lockstep::kernels::cuda {
namespace {

constexpr int words = 4;  // of a Philox block, one for each of so many neighbours

template <class T>
__global__ void drop(Dropout<T> dropout, bool aligned, const T* x, T* y) {
  const base::PhiloxKey key = base::RandomStream::key_of(dropout.purpose, *dropout.step);
  const std::int64_t groups = base::ceil_div(dropout.width, words);
  for (std::int64_t i = grid_thread(); i < dropout.rows * groups; i += grid_stride()) {
    const std::int64_t row = i / groups, group = i % groups;
    const base::PhiloxCounter drawn =
        base::random_block(key, static_cast<std::uint64_t>(dropout.first_row + row),
                           static_cast<std::uint64_t>(group));
    const std::int64_t first = row * dropout.width + group * words;
    const std::int64_t left = dropout.width - group * words;
    const auto apply = [&](std::uint32_t word, T value, T before) {
      const T kept = (word >> 8) >= dropout.threshold ? value * dropout.scale : T(0);
      return dropout.accumulate ? before + kept : kept;
    };
    if (aligned) {
      const Chunk<words, T> in = load_chunk<words>(x + first);
      Chunk<words, T> out{};
      if (dropout.accumulate) out = load_chunk<words>(y + first);
#pragma unroll
      for (std::size_t k = 0; k < words; ++k) {
        out.lane[k] = apply(drawn[k], in.lane[k], out.lane[k]);
      }
      store_chunk(y + first, out);
    } else {
      for (std::size_t k = 0; k < words && static_cast<std::int64_t>(k) < left; ++k) {
        const std::int64_t at = first + static_cast<std::int64_t>(k);
        y[at] = apply(drawn[k], x[at], dropout.accumulate ? y[at] : T(0));
      }
    }
  }
}

}  // namespace

template <class T>
void launch_dropout(const device::CudaStream& stream, const Dropout<T>& dropout, const T* x, T* y) {
  if (dropout.rows * dropout.width == 0) return;
  const bool aligned = dropout.width % words == 0 &&
                       reinterpret_cast<std::uintptr_t>(x) % 16 == 0 &&
                       reinterpret_cast<std::uintptr_t>(y) % 16 == 0;
  const std::int64_t groups = base::ceil_div(dropout.width, words);
  device::launch(stream, {blocks_for(dropout.rows * groups), block_threads}, drop<T>, dropout,
                 aligned, x, y);
}

template void launch_dropout(const device::CudaStream&, const Dropout<float>&, const float*,
                             float*);
template void launch_dropout(const device::CudaStream&, const Dropout<double>&, const double*,
                             double*);

}  // namespace lockstep::kernels::cuda

// Elementwise loops: out[i] = f(inputs[i]...). One launch, each element read and written once.
#pragma once

#include <utility>

#include "framework/kernels/cuda/grid.cuh"
#include "framework/kernels/cuda/operands.h"

namespace lockstep::kernels::cuda {

template <int width, class F, class Out, class... In>
__global__ void map_flat(std::int64_t head, std::int64_t count, F f, Out* out, const In*... in) {
  const std::int64_t chunks = (count - head) / width;
  for (std::int64_t i = grid_thread(); i < chunks; i += grid_stride()) {
    const std::int64_t first = head + i * width;
    const auto apply = [f](const auto&... chunk) {
      Chunk<width, Out> result;
#pragma unroll
      for (int lane = 0; lane < width; ++lane) result.lane[lane] = f(chunk.lane[lane]...);
      return result;
    };
    store_chunk(out + first, apply(load_chunk<width>(in + first)...));
  }
  const std::int64_t tail = head + chunks * width;
  for (std::int64_t i = grid_thread(); i < head + count - tail; i += grid_stride()) {
    const std::int64_t at = i < head ? i : i - head + tail;
    out[at] = f(in[at]...);
  }
}

template <class F, class Out, class... In>
__global__ void map_strided(Space space, F f, Out* out, const In*... in) {
  for (std::int64_t i = grid_thread(); i < space.count; i += grid_stride()) {
    const Places places = space.places(i);
    [&]<int... operand>(std::integer_sequence<int, operand...>) {
      out[places.at[0]] = f(in[places.at[operand + 1]]...);
    }
    (std::make_integer_sequence<int, static_cast<int>(sizeof...(In))>{});
  }
}

// F is called on the device and passed by value. Inputs may be `out` itself.
template <class F, class Out, class... In>
void map(const device::CudaStream& stream, const MapLoop& loop, F f, Out* out, const In*... in) {
  static_assert(sizeof...(In) < most_operands);
  if (loop.count == 0) return;
  if (!loop.flat) {
    device::launch(stream, {blocks_for(loop.count), block_threads}, map_strided<F, Out, In...>,
                   loop.space, f, out, in...);
    return;
  }
  constexpr std::size_t narrowest = std::min({sizeof(Out), sizeof(In)...});
  constexpr int width = static_cast<int>(16 / narrowest);
  const std::int64_t head = unaligned_head(loop.count, static_cast<const Out*>(out), in...);
  const std::int64_t tasks = head < loop.count ? loop.count / width : loop.count;
  device::launch(stream, {blocks_for(tasks), block_threads}, map_flat<width, F, Out, In...>, head,
                 loop.count, f, out, in...);
}

}  // namespace lockstep::kernels::cuda

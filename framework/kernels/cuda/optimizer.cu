#include "framework/kernels/cuda/optimizer.h"

#include <cmath>

#include "framework/kernels/cuda/grid.cuh"

namespace lockstep::kernels::cuda {
namespace {

constexpr int width = 4;

// One element's update; made in each thread from the constants on the device.
template <class T>
struct PlainSgd {
  SgdConstants<T> constants;
  __device__ void operator()(T& p, T g) const { p -= constants.lr * (g + constants.decay * p); }
};

template <class T, bool nesterov>
struct MomentumSgd {
  SgdConstants<T> constants;
  __device__ void operator()(T& p, T g, T& buffer) const {
    const T step = g + constants.decay * p;
    buffer = constants.momentum * buffer + step;
    p -= constants.lr * (nesterov ? step + constants.momentum * buffer : buffer);
  }
};

template <class T>
struct Adam {
  AdamConstants<T> constants;
  __device__ void operator()(T& p, T g, T& m, T& v) const {
    const auto& c = constants;
    g = g + c.decay * p;
    m = m + c.blend1 * (g - m);
    v = c.beta2 * v + c.blend2 * (g * g);
    p = c.keep * p - c.step_size * (m / (std::sqrt(v) * c.inverse_sqrt_correction2 + c.epsilon));
  }
};

// g = clamp(scale * grad, -limit, limit)
template <class T>
struct Clamp {
  T scale, limit;
  __device__ T operator()(T grad) const {
    const T scaled = scale * grad;
    const T below = scaled > limit ? limit : scaled;
    return below < -limit ? -limit : below;
  }
};

// One element. A gradient that is not finite leaves its parameter as it was; returns whether it was
// one.
template <class T, class Update, class... State>
__device__ bool update_element(const Update& update, const Clamp<T>& clamp, T& parameter, T grad,
                               State&... state) {
  const bool bad = grad - grad != T(0);  // 0 for finite values and NaN for the others
  const T before = parameter;
  update(parameter, clamp(grad), state...);
  if (bad) parameter = before;
  return bad;
}

struct alignas(width * sizeof(bfloat16)) WorkingChunk {
  bfloat16 lane[width];
};

template <class T>
__device__ void store_working(bfloat16* to, const Chunk<width, T>& value) {
  WorkingChunk chunk;
#pragma unroll
  for (int lane = 0; lane < width; ++lane)
    chunk.lane[lane] = bfloat16(static_cast<float>(value.lane[lane]));
  *reinterpret_cast<WorkingChunk*>(to) = chunk;
}

// update(parameter, gradient, state...) for each element; parameter and state are read and written
// once.
template <class Update, class T, class Constants, class... State>
__global__ void update_range(std::int64_t head, std::int64_t count, const Constants* constants,
                             Parameter<T> parameter, Gradient<T> gradient, State*... state) {
  if (gradient.skip != nullptr && *gradient.skip != 0) return;
  const Update update{*constants};
  const double factor = gradient.factor == nullptr ? 1 : *gradient.factor;
  const Clamp<T> clamp{static_cast<T>(factor), gradient.limit};
  const T* const grad = gradient.grad;
  bool bad = false;
  const std::int64_t chunks = (count - head) / width;
  for (std::int64_t i = grid_thread(); i < chunks; i += grid_stride()) {
    const std::int64_t first = head + i * width;
    const auto apply = [&](Chunk<width, T> p, const Chunk<width, T>& g, auto... s) {
#pragma unroll
      for (int lane = 0; lane < width; ++lane) {
        bad |= update_element(update, clamp, p.lane[lane], g.lane[lane], s.lane[lane]...);
      }
      store_chunk(parameter.value + first, p);
      if (parameter.working != nullptr) store_working(parameter.working + first, p);
      (store_chunk(state + first, s), ...);
    };
    apply(load_chunk<width>(static_cast<const T*>(parameter.value) + first),
          load_chunk<width>(grad + first),
          load_chunk<width>(static_cast<const T*>(state) + first)...);
  }
  const std::int64_t tail = head + chunks * width;
  for (std::int64_t i = grid_thread(); i < head + count - tail; i += grid_stride()) {
    const std::int64_t at = i < head ? i : i - head + tail;
    T& p = parameter.value[at];
    bad |= update_element(update, clamp, p, grad[at], state[at]...);
    if (parameter.working != nullptr) parameter.working[at] = bfloat16(static_cast<float>(p));
  }
  if (bad && gradient.nonfinite != nullptr) atomicExch(gradient.nonfinite, 1);
}

template <class Update, class T, class Constants, class... State>
void launch_update(const device::CudaStream& stream, std::int64_t count, const Constants* constants,
                   const Parameter<T>& parameter, const Gradient<T>& gradient, State*... state) {
  if (count == 0) return;
  std::int64_t head = unaligned_head(count, static_cast<const T*>(parameter.value), gradient.grad,
                                     static_cast<const T*>(state)...);
  if (parameter.working != nullptr &&
      reinterpret_cast<std::uintptr_t>(parameter.working + head) % sizeof(WorkingChunk) != 0)
    head = count;
  const std::int64_t tasks = head < count ? count / width : count;
  device::launch(stream, {blocks_for(tasks), block_threads},
                 update_range<Update, T, Constants, State...>, head, count, constants, parameter,
                 gradient, state...);
}

}  // namespace

template <class T>
void launch_sgd(const device::CudaStream& stream, std::int64_t count,
                const SgdConstants<T>* constants, bool nesterov, const Parameter<T>& parameter,
                const Gradient<T>& gradient, T* momentum) {
  if (momentum == nullptr) {
    launch_update<PlainSgd<T>>(stream, count, constants, parameter, gradient);
  } else if (nesterov) {
    launch_update<MomentumSgd<T, true>>(stream, count, constants, parameter, gradient, momentum);
  } else {
    launch_update<MomentumSgd<T, false>>(stream, count, constants, parameter, gradient, momentum);
  }
}

template <class T>
void launch_adam(const device::CudaStream& stream, std::int64_t count,
                 const AdamConstants<T>* constants, const Parameter<T>& parameter,
                 const Gradient<T>& gradient, T* first_moment, T* second_moment) {
  launch_update<Adam<T>>(stream, count, constants, parameter, gradient, first_moment,
                         second_moment);
}

#define LOCKSTEP_OPTIMIZER(T)                                                                     \
  template void launch_sgd(const device::CudaStream&, std::int64_t, const SgdConstants<T>*, bool, \
                           const Parameter<T>&, const Gradient<T>&, T*);                          \
  template void launch_adam(const device::CudaStream&, std::int64_t, const AdamConstants<T>*,     \
                            const Parameter<T>&, const Gradient<T>&, T*, T*);
LOCKSTEP_OPTIMIZER(float)
LOCKSTEP_OPTIMIZER(double)
#undef LOCKSTEP_OPTIMIZER

}  // namespace lockstep::kernels::cuda

// What a step's matrix products alone take on a GPU, all of them one after the other.
#pragma once

#include <algorithm>
#include <limits>

#include "benchmarks/train_step_options.h"
#include "framework/device/stream.h"
#include "framework/kernels/kernels.h"

namespace lockstep::benchmarks {

// Seconds, the best of several runs, for `rows` rows of the batch: forward, to weights and, but for
// the first layer, to inputs.
inline double measure_products(Context& context, const Workload& workload, std::int64_t rows) {
  struct Layer {
    Tensor x, w, y, grad_w, grad_x;
  };
  std::vector<Layer> layers;
  const kernels::Kernels& kernels = kernels::kernels_for(context);
  const std::vector<std::int64_t> width = workload.widths();
  for (std::size_t i = 0; i + 1 < width.size(); ++i) {
    layers.push_back({Tensor::empty(context, {rows, width[i]}),
                      Tensor::empty(context, {width[i + 1], width[i]}),
                      Tensor::empty(context, {rows, width[i + 1]}),
                      Tensor::empty(context, {width[i + 1], width[i]}),
                      Tensor::empty(context, {rows, width[i]})});
    for (const Tensor& tensor : {layers.back().x, layers.back().w}) kernels.fill(0.5, tensor);
  }
  const auto run = [&] {
    for (const Layer& layer : layers)
      kernels.matmul(layer.x, layer.w.transpose(0, 1), layer.y, false);
    for (std::size_t i = layers.size(); i-- > 0;) {
      const Layer& layer = layers[i];
      kernels.matmul(layer.y.transpose(0, 1), layer.x, layer.grad_w, false);
      if (i > 0) kernels.matmul(layer.y, layer.w, layer.grad_x, false);
    }
  };
  constexpr int runs = 10;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    const auto start = device::Clock::now();
    for (int round = 0; round < runs; ++round) run();
    context.compute_stream().synchronize();
    const std::chrono::duration<double> seconds = device::Clock::now() - start;
    best = std::min(best, seconds.count() / runs);
  }
  return best;
}

}  // namespace lockstep::benchmarks

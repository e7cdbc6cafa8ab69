// How long one kernel takes on a context's device.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>

#include "benchmarks/bench.h"
#include "framework/device/context.h"
#include "framework/device/graph.h"

namespace lockstep::benchmarks {

// On the CPU the body is timed call by call. On a GPU many calls are captured into a graph, which
// is timed: a launch costs the host more than many kernels take, and a training step does not pay
// it for each either.
class KernelTimer {
 public:
  // `most_launches` of a graph; fewer of kernels that take long.
  KernelTimer(Context& context, double seconds, int most_launches)
      : context_(context), seconds_(seconds), most_launches_(most_launches) {}

  Timing operator()(const std::function<void()>& body) const {
    if (!context_.has_graphs()) return time_repeated(body, seconds_);
    run_once(body);  // memory and code are there afterwards
    constexpr double graph_seconds = 0.005;
    const int launches =
        static_cast<int>(std::clamp<double>(graph_seconds / run_once(body), 1, most_launches_));
    const std::unique_ptr<Graph> graph = context_.capture({}, [&] {
      for (int i = 0; i < launches; ++i) body();
    });
    Timing timing = time_repeated([&] { graph->launch().wait(); }, seconds_);
    for (double* const time : {&timing.median, &timing.min, &timing.max}) *time /= launches;
    return timing;
  }

 private:
  double run_once(const std::function<void()>& body) const {
    const auto start = device::Clock::now();
    body();
    context_.compute_stream().synchronize();
    return seconds_since(start);
  }

  Context& context_;
  double seconds_;
  int most_launches_;
};

}  // namespace lockstep::benchmarks

#include "train/step_graph.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "framework/device/cuda/cuda_context.h"

namespace lockstep::train {
namespace {

constexpr int warm_up_steps = 2;
constexpr int most_attempts = 3;

}  // namespace

std::string graph_hindrance(const Config::Compute& config, const comm::Communicator& communicator,
                            const Replica& replica) {
  if (config.graph == "off") return "compute.graph is off";
  if (!communicator.capabilities().can_be_captured) {
    const std::string why =
        fmt::format("collectives of backend {} cannot be captured", communicator.backend());
    if (config.graph == "on") throw ConfigError("compute.graph: found on, but " + why);
    return why;
  }
  if (replica.is_watched()) return "a fault is to damage gradients";
  // Making a graph may wait for the device, where other ranks' collectives wait for this rank.
  if (config.graph == "auto" && communicator.size() > device::cuda_devices().count)
    return "workers share a GPU";
  return {};
}

StepGraph::StepGraph(Context& context, Stream& communication, std::string hindrance, const Log& log)
    : context_(context),
      communication_(communication),
      hindrance_(std::move(hindrance)),
      log_(log) {
  if (!hindrance_.empty())
    log_.info("steps are enqueued call by call, not as a CUDA graph: {}", hindrance_);
}

std::vector<comm::Work> StepGraph::run(const data::Batch& batch, bool traced,
                                       const Enqueue& enqueue) {
  if (traced) return enqueue(batch);
  const StepShape shape{batch.rows, batch.first_row, batch.global_rows};
  if (!graph_ && hindrance_.empty() && is_warm(batch, shape)) capture(enqueue);
  if (graph_ && shape == shape_) return launch(batch);
  return enqueue(batch);
}

// Also makes the inputs of a graph, so that the steps before a capture have as little memory as it.
bool StepGraph::is_warm(const data::Batch& batch, const StepShape& shape) {
  if (shape != shape_) {
    if (shape.global_rows < shape_.global_rows) return false;  // an uneven end
    shape_ = shape;
    steps_ = 0;
    inputs_ = batch;
    inputs_.features = Tensor::empty(context_, batch.features.shape(), batch.features.dtype());
    inputs_.labels = Tensor::empty(context_, batch.labels.shape(), batch.labels.dtype());
  }
  return steps_++ >= warm_up_steps && shape.rows > 0;
}

void StepGraph::capture(const Enqueue& enqueue) {
  std::vector<Stream*> others;
  if (&communication_ != &context_.compute_stream()) others.push_back(&communication_);
  try {
    graph_ = context_.capture(others, [&] { works_ = enqueue(inputs_); });
    log_.info("steps of {} rows are launched as a CUDA graph from here on", shape_.global_rows);
  } catch (const CaptureError& error) {
    works_.clear();
    log_.debug("a step could not be captured into a CUDA graph: {}", error.what());
    if (++attempts_ < most_attempts) return;
    hindrance_ = error.what();
    log_.warning("steps cannot be captured into a CUDA graph and are enqueued call by call: {}",
                 hindrance_);
  }
}

std::vector<comm::Work> StepGraph::launch(const data::Batch& batch) {
  copy_inputs(batch);
  Stream& compute = context_.compute_stream();
  if (&communication_ != &compute) compute.wait(communication_.record());
  const Event end = graph_->launch();
  if (&communication_ != &compute) communication_.wait(end);
  std::vector<comm::Work> works;
  works.reserve(works_.size());
  for (const comm::Work& work : works_) works.push_back(work.launched());
  return works;
}

void StepGraph::copy_inputs(const data::Batch& batch) {
  Stream& compute = context_.compute_stream();
  context_.copy(inputs_.features.data(), batch.features.data(), batch.features.bytes(), compute);
  context_.copy(inputs_.labels.data(), batch.labels.data(), batch.labels.bytes(), compute);
}

}  // namespace lockstep::train

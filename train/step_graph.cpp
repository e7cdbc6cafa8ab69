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

GraphOptions graph_options(const Config::Compute& config, const comm::Communicator& communicator,
                           const Replica& replica, std::function<void()> meet) {
  if (config.graph == "off") return {.hindrance = "compute.graph is off", .meet = {}};
  if (!communicator.capabilities().can_be_captured) {
    const std::string why =
        fmt::format("collectives of backend {} cannot be captured", communicator.backend());
    if (config.graph == "on") throw ConfigError("compute.graph: found on, but " + why);
    return {.hindrance = why, .meet = {}};
  }
  const bool share = communicator.size() > device::cuda_devices().count;
  // Kernels of one rank's graph might have to wait for another's, as streams' need not.
  if (share && config.graph == "auto") return {.hindrance = "workers share a GPU", .meet = {}};
  GraphOptions options;
  if (replica.is_watched()) options.hindrance = "a fault is to damage gradients";
  if (share) options.meet = std::move(meet);
  return options;
}

StepGraph::StepGraph(Context& context, Stream& communication, const GraphOptions& options,
                     const Log& log)
    : context_(context), communication_(communication), options_(options), log_(log) {
  if (!may_capture())
    log_.info("steps are enqueued call by call, not as a CUDA graph: {}", options_.hindrance);
}

std::vector<comm::Work> StepGraph::run(const data::Batch& batch, bool traced,
                                       const Enqueue& enqueue) {
  if (traced) return enqueue(batch);
  const StepShape shape{batch.rows, batch.first_row, batch.global_rows};
  if (is_due(batch, shape)) make_graph(enqueue);
  if (graph_ && shape == shape_) return launch(batch);
  return enqueue(batch);
}

// Whether a graph is to be made now by those who have none; the same answer on every rank. Also
// makes the inputs of a graph, so that the steps before a capture have as little memory as it.
bool StepGraph::is_due(const data::Batch& batch, const StepShape& shape) {
  if (shape != shape_) {
    if (graph_ || shape.global_rows < shape_.global_rows) return false;  // an uneven end
    shape_ = shape;
    steps_ = 0;
    inputs_ = batch;
    inputs_.features = Tensor::empty(context_, batch.features.shape(), batch.features.dtype());
    inputs_.labels = Tensor::empty(context_, batch.labels.shape(), batch.labels.dtype());
  }
  const int step = steps_++;
  return step >= warm_up_steps && step < warm_up_steps + most_attempts;
}

// Making a graph may wait for the device. So nothing of ranks that share one may run there which
// waits for this rank: not before all of them have made theirs.
void StepGraph::make_graph(const Enqueue& enqueue) {
  if (options_.meet) {
    communication_.synchronize();
    context_.compute_stream().synchronize();
    options_.meet();
  }
  if (!graph_ && may_capture() && shape_.rows > 0) capture(enqueue);
  if (options_.meet) options_.meet();
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
    if (steps_ < warm_up_steps + most_attempts) return;
    options_.hindrance = error.what();
    log_.warning("steps cannot be captured into a CUDA graph and are enqueued call by call: {}",
                 options_.hindrance);
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

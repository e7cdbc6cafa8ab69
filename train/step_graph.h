// StepGraph: what a training step enqueues on a GPU, captured once and launched from then on.
//
// The first steps are enqueued call by call, which fills the allocator's cache and loads kernels;
// then one is captured. Smaller ones (the last batch of an epoch) go on to be enqueued call by
// call, in the same order of collectives, and so do all where a capture fails: to other ranks it
// makes no difference.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/loader.h"
#include "framework/base/log.h"
#include "framework/device/context.h"
#include "framework/device/graph.h"
#include "train/config/config.h"
#include "train/parallel/replica.h"

namespace lockstep::train {

struct GraphOptions {
  std::string hindrance;       // why steps cannot be launched as a graph, in words; empty: they can
  std::function<void()> meet;  // of ranks that share GPUs: returns when all ranks have come
};
// Of a run, whose ranks can `meet`. ConfigError where compute.graph: on asks for what can't be had.
GraphOptions graph_options(const Config::Compute& config, const comm::Communicator& communicator,
                           const Replica& replica, std::function<void()> meet);

class StepGraph {
 public:
  // Enqueues what lies in a step between the host's own doings, all of it on the compute stream and
  // on `communication`, from the batch that it is given. It may be called again for the same step
  // where a capture did not work out. Returns the collectives.
  using Enqueue = std::function<std::vector<comm::Work>(const data::Batch& batch)>;

  StepGraph(Context& context, Stream& communication, const GraphOptions& options, const Log& log);

  // Enqueues a step one way or the other, by calls in any case where it is `traced`. Returns its
  // collectives. What is enqueued on either stream afterwards comes behind it.
  std::vector<comm::Work> run(const data::Batch& batch, bool traced, const Enqueue& enqueue);
  // Whether a step may be captured, now or later.
  bool may_capture() const { return options_.hindrance.empty(); }

 private:
  // What arguments of kernels, and addresses, depend on.
  struct StepShape {
    std::int64_t rows = 0, first_row = 0, global_rows = 0;
    bool operator==(const StepShape&) const = default;
  };

  bool is_due(const data::Batch& batch, const StepShape& shape);
  void make_graph(const Enqueue& enqueue);
  void capture(const Enqueue& enqueue);
  std::vector<comm::Work> launch(const data::Batch& batch);
  void copy_inputs(const data::Batch& batch);

  Context& context_;
  Stream& communication_;
  GraphOptions options_;
  const Log& log_;

  StepShape shape_;     // of the graph, or of the largest step while there is none
  int steps_ = 0;       // of that shape
  data::Batch inputs_;  // that the graph reads
  std::vector<comm::Work> works_;
  std::unique_ptr<Graph> graph_;
};

}  // namespace lockstep::train

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

// Why the steps of a run cannot be launched as a graph, in words; empty where they can. ConfigError
// where compute.graph: on asks for what can't be had.
std::string graph_hindrance(const Config::Compute& config, const comm::Communicator& communicator,
                            const Replica& replica);

class StepGraph {
 public:
  // Enqueues what lies in a step between the host's own doings, all of it on the compute stream and
  // on `communication`, from the batch that it is given. It may be called again for the same step
  // where a capture did not work out. Returns the collectives.
  using Enqueue = std::function<std::vector<comm::Work>(const data::Batch& batch)>;

  // `hindrance`: why nothing is captured; empty where steps may be.
  StepGraph(Context& context, Stream& communication, std::string hindrance, const Log& log);

  // Enqueues a step one way or the other, by calls in any case where it is `traced`. Returns its
  // collectives. What is enqueued on either stream afterwards comes behind it.
  std::vector<comm::Work> run(const data::Batch& batch, bool traced, const Enqueue& enqueue);
  // Whether a step may be captured, now or later.
  bool may_capture() const { return hindrance_.empty(); }

 private:
  // What arguments of kernels, and addresses, depend on.
  struct StepShape {
    std::int64_t rows = 0, first_row = 0, global_rows = 0;
    bool operator==(const StepShape&) const = default;
  };

  bool is_warm(const data::Batch& batch, const StepShape& shape);
  void capture(const Enqueue& enqueue);
  std::vector<comm::Work> launch(const data::Batch& batch);
  void copy_inputs(const data::Batch& batch);

  Context& context_;
  Stream& communication_;
  std::string hindrance_;
  const Log& log_;

  StepShape shape_;     // of the graph, or of the largest step while there is none
  int steps_ = 0;       // of that shape
  int attempts_ = 0;    // to capture one
  data::Batch inputs_;  // that the graph reads
  std::vector<comm::Work> works_;
  std::unique_ptr<Graph> graph_;
};

}  // namespace lockstep::train

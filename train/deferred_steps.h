// DeferredSteps: training steps on a GPU, of which the host reads what they came to while the next
// one runs, so that it waits for none of them in the middle and the GPU never waits for the host.
//
// The host takes for granted that all goes well: that a step was an update like the others, and
// what follows from it for the next one (the optimizer's count, the loss scale). Where a step's
// gradients turn out not to be finite, the device has left out its update and those behind it, and
// undo() takes them all back. Every rank reads a step's results at the same place in its sequence
// of steps, so all make the same decisions at the same step.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "train/loss_scaler.h"
#include "train/metrics.h"
#include "train/micro_batches.h"
#include "train/parallel/host_values.h"
#include "train/parallel/replica.h"
#include "train/parallel/step_summary.h"
#include "train/step_graph.h"

namespace lockstep::train {

class DeferredSteps {
 public:
  // What the host knows of a step when it enqueues it.
  struct Start {
    std::int64_t step = 0;           // updates, this one included
    std::int64_t epoch = 0;          // from 0
    std::int64_t step_in_epoch = 0;  // from 0
    double lr = 0;
    LossScale loss_scale = {};  // of this step
    double stop_requests = 0;
    double data_wait_seconds = 0;
  };
  struct Result {
    Start start;
    bool is_finite = true;  // the gradients; the same on every rank
    StepRecord record;
    std::vector<comm::Work> buckets;
  };

  // All outlive this. `counter` is that of the micro-batches.
  DeferredSteps(Context& context, Replica& replica, LossCounter& counter,
                MicroBatches& micro_batches, const GraphOptions& graph, const Log& log);

  // replica.begin_step() comes before it.
  void enqueue(const Start& start, const data::Batch& batch);
  // Steps that were enqueued and not read: at most two.
  std::size_t pending() const { return pending_.size(); }
  // Waits for the oldest. Throws what its collectives failed with, or what kernels found wrong with
  // the data. A step that went well to its end is one, whatever has failed behind it.
  Result read();
  // Waits for all and reads none.
  void discard();
  // After a failure: waits for all, and returns what those came to that went well to their end.
  std::vector<StepRecord> finish();
  // After read() and discard(): the step that was read, whose gradients were not finite, and those
  // that were discarded behind it are as if they had not been enqueued. With
  // ReplicaOptions::skip_nonfinite.
  void undo(const Start& read);

 private:
  // In page-locked memory.
  struct Slot {
    explicit Slot(Context& context);
    HostValues<double> summary;
    HostValues<std::int32_t> spoilt;
    HostValues<std::int64_t> noted;
  };
  struct Pending {
    Start start;
    Event copied;
    std::size_t slot = 0;
    std::vector<comm::Work> works;  // see enqueue_calls()
    std::size_t travels = 0;        // of them: of buckets and parameters
    StepParts parts;                // as the host had them
    device::Clock::time_point begin;
    std::uint64_t reduced_bytes = 0, sent_bytes = 0;
    bool traced = false;
  };

  bool is_complete(Slot& slot) const;
  void begin_update(const Start& start);
  // Returns its collectives: of the buckets, of parameters (see Replica::enqueue_update), then the
  // waits for them (Replica::waits), then the summary's.
  std::vector<comm::Work> enqueue_calls(const data::Batch& batch);
  void prepare(const Start& start);
  void copy_results(std::size_t slot);
  StepParts parts_of(const Pending& step, device::Clock::time_point end);

  Context& context_;
  Replica& replica_;
  LossCounter& counter_;
  MicroBatches& micro_batches_;
  Tensor summary_;  // float64: as StepSummary and 1 for a rank, of this rank and then of all
  Tensor noted_;    // where kernels note what they could not use
  std::array<Slot, 2> slots_;
  std::size_t next_slot_ = 0;
  std::deque<Pending> pending_;
  std::int64_t step_ = 0;  // the last that was enqueued
  std::size_t travels_ = 0;
  std::uint64_t reduced_bytes_ = 0, sent_bytes_ = 0;
  device::Clock::time_point last_read_;
  StepGraph graph_;  // last: it goes first
};

}  // namespace lockstep::train

// StepSummary: the one small all-reduce that closes every update. What all ranks must know of a
// step, summed in double.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "train/parallel/host_values.h"

namespace lockstep::train {

struct StepSummary {
  double loss_sum = 0;  // over the rows of all ranks, not scaled
  double targets = 0;   // rows that counted
  double correct = 0;

  double stop_requests = 0;  // ranks that saw a request to stop
  double data_wait_seconds = 0;

  double mean_loss() const { return targets > 0 ? loss_sum / targets : 0; }
  double accuracy() const { return targets > 0 ? correct / targets : 0; }
  StepSummary& operator+=(const StepSummary& other);
};

// Adds up the summaries of all ranks. start() enqueues behind the buckets of the step; get() waits.
// One at a time; must not be destroyed while one is on its way.
class SummaryExchange {
 public:
  SummaryExchange(Context& context, comm::Communicator& communicator)
      : communicator_(communicator), values_(context, 5) {}

  void start(const StepSummary& local, Stream& stream);
  StepSummary get();
  const comm::Work& work() const { return work_; }  // of the last one
  StepSummary exchange(const StepSummary& local, Stream& stream) {
    start(local, stream);
    return get();
  }

 private:
  comm::Communicator& communicator_;
  HostValues<double> values_;
  comm::Work work_;
};

}  // namespace lockstep::train

// StepSummary: the one small all-reduce that closes every update. What all ranks must know of a
// step, summed in double.
#pragma once

#include <array>
#include <cstdint>

#include "comm/communicator.h"

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
  explicit SummaryExchange(comm::Communicator& communicator) : communicator_(communicator) {}

  void start(const StepSummary& local, Stream& stream);
  StepSummary get();
  const comm::Work& work() const { return work_; }  // of the last one
  StepSummary exchange(const StepSummary& local, Stream& stream) {
    start(local, stream);
    return get();
  }

 private:
  comm::Communicator& communicator_;
  std::array<double, 5> values_{};
  comm::Work work_;
};

}  // namespace lockstep::train

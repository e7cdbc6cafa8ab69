#include "train/parallel/step_summary.h"

#include <algorithm>
#include <array>

namespace lockstep::train {

StepSummary& StepSummary::operator+=(const StepSummary& other) {
  loss_sum += other.loss_sum;
  targets += other.targets;
  correct += other.correct;

  stop_requests += other.stop_requests;
  data_wait_seconds += other.data_wait_seconds;
  return *this;
}

void SummaryExchange::start(const StepSummary& local, Stream& stream) {
  const std::array values = {local.loss_sum, local.targets, local.correct, local.stop_requests,
                             local.data_wait_seconds};
  std::copy(values.begin(), values.end(), values_.values().begin());
  work_ = communicator_.all_reduce(values_.range(), comm::ReduceOp::sum, stream);
}

StepSummary SummaryExchange::get() {
  work_.wait();
  return {values_[0], values_[1], values_[2], values_[3], values_[4]};
}

}  // namespace lockstep::train

#include "train/parallel/step_summary.h"

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
  values_ = {local.loss_sum, local.targets, local.correct, local.stop_requests,
             local.data_wait_seconds};
  work_ = communicator_.all_reduce(comm::range_of(std::span(values_)), comm::ReduceOp::sum, stream);
}

StepSummary SummaryExchange::get() {
  work_.wait();
  return {values_[0], values_[1], values_[2], values_[3], values_[4]};
}

}  // namespace lockstep::train

#include "train/loss_counter.h"

#include <array>

#include "framework/kernels/kernels.h"

namespace lockstep::train {

LossCounter::LossCounter(Context& context) : counts_(Tensor::empty(context, {3}, DType::float64)) {
  kernels::kernels_for(context).fill(0, counts_);
}

Variable LossCounter::loss(const Variable& logits, const Tensor& targets, double scale,
                           const ops::CrossEntropyOptions& options) {
  const auto loss = ops::cross_entropy(logits, targets, scale, options, counts_.slice(0, 0, 2));
  kernels::kernels_for(counts_.context())
      .count_correct(logits.value(), targets, options.ignore_index, counts_.slice(0, 2, 3),
                     /*accumulate=*/true);
  return loss.loss_sum;
}

void LossCounter::take(StepSummary& summary) {
  std::array<double, 3> counts;
  counts_.to_host(std::as_writable_bytes(std::span(counts)));
  const kernels::Kernels& kernels = kernels::kernels_for(counts_.context());
  kernels.fill(0, counts_);
  kernels.throw_noted_error(counts_.context());
  summary.loss_sum += counts[0];
  summary.targets += counts[1];
  summary.correct += counts[2];
}

void LossCounter::take_into(const Tensor& values) {
  const kernels::Kernels& kernels = kernels::kernels_for(counts_.context());
  kernels.copy(counts_, values.slice(0, 0, counts_.count()));
  kernels.fill(0, counts_);
}

}  // namespace lockstep::train

#include "framework/kernels/cuda/cross_entropy.h"

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/device_state.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/loss_operands.h"

namespace lockstep::kernels::cuda {

void CudaKernels::cross_entropy(const Tensor& logits, const Tensor& targets,
                                const CrossEntropyOptions& options,
                                const CrossEntropyResult& result) const {
  require_cross_entropy(logits, targets, result);
  const Tensor target_rows = contiguous_on_device(targets);
  const Tensor logit_rows = contiguous_on_device(logits);
  const std::int64_t rows = logits.shape()[0], classes = logits.shape()[1];
  const Tensor losses = Tensor::empty(logits.context(), {rows}, DType::float64);
  visit_float("cross_entropy", logits.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_cross_entropy<T>(stream_of(logits),
                            {rows, classes, options.ignore_index, 1 - options.label_smoothing,
                             options.label_smoothing / static_cast<double>(classes)},
                            logit_rows.data<T>(), target_rows.data<std::int64_t>(),
                            result.grad.defined() ? result.grad.data<T>() : nullptr,
                            losses.data<double>(),
                            {result.total.data<double>(), result.accumulate,
                             result.loss.defined() ? result.loss.data<T>() : nullptr, result.scale,
                             DeviceState::of(logits.context()).noted()});
  });
}

void CudaKernels::count_correct(const Tensor& logits, const Tensor& targets,
                                std::int64_t ignore_index, const Tensor& correct,
                                bool accumulate) const {
  require_targets("count_correct", logits, targets);
  require_operand("count_correct", "correct", correct, {1}, DType::float64);
  const Tensor target_rows = contiguous_on_device(targets);
  const Tensor logit_rows = contiguous_on_device(logits);
  const std::int64_t rows = logits.shape()[0];
  const Tensor hits = Tensor::empty(logits.context(), {rows}, DType::float64);
  visit_float("count_correct", logits.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_count_correct<T>(stream_of(logits), {rows, logits.shape()[1], ignore_index},
                            logit_rows.data<T>(), target_rows.data<std::int64_t>(),
                            hits.data<double>(), correct.data<double>(), accumulate);
  });
}

}  // namespace lockstep::kernels::cuda

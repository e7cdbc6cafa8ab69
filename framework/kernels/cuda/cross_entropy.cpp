#include "framework/kernels/cuda/cross_entropy.h"

#include "framework/kernels/cuda/cuda_kernels.h"
#include "framework/kernels/cuda/map_plan.h"
#include "framework/kernels/cuda/result.h"
#include "framework/kernels/dispatch.h"

namespace lockstep::kernels::cuda {

LossSum CudaKernels::cross_entropy(const Tensor& logits, const Tensor& targets,
                                   std::int64_t ignore_index, double label_smoothing,
                                   const Tensor& grad) const {
  require_targets("cross_entropy", logits, targets);
  const Tensor target_rows = contiguous_on_device(targets);
  if (grad.defined()) {
    require_shape("cross_entropy", "grad", grad, logits.shape());
    require_contiguous("cross_entropy", "grad", grad);
  }
  const Tensor logit_rows = contiguous_on_device(logits);
  const std::int64_t rows = logits.shape()[0], classes = logits.shape()[1];
  const CrossEntropyOptions options{rows, classes, ignore_index, 1 - label_smoothing,
                                    label_smoothing / static_cast<double>(classes)};
  const std::int64_t* const target_of = target_rows.data<std::int64_t>();
  const Tensor losses = Tensor::empty(logits.context(), {rows}, DType::float64);
  const Result<LossTotal> total(logits.context());
  visit_float("cross_entropy", logits.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_cross_entropy<T>(stream_of(logits), options, logit_rows.data<T>(), target_of,
                            grad.defined() ? grad.data<T>() : nullptr, losses.data<double>(),
                            total.on_device());
  });
  const LossTotal result = total.get();
  if (result.first_bad_row < rows) {
    std::int64_t bad = 0;
    logits.context().download(&bad, target_of + result.first_bad_row, sizeof bad);
    throw DataError(fmt::format(
        "cross_entropy: the target of row {} is {}, expected 0 to {} or {} to ignore it",
        result.first_bad_row, bad, classes - 1, ignore_index));
  }
  return {result.sum, result.count};
}

std::int64_t CudaKernels::count_correct(const Tensor& logits, const Tensor& targets,
                                        std::int64_t ignore_index) const {
  require_targets("count_correct", logits, targets);
  const Tensor target_rows = contiguous_on_device(targets);
  const Tensor logit_rows = contiguous_on_device(logits);
  const CrossEntropyOptions options{logits.shape()[0], logits.shape()[1], ignore_index};
  const Result<unsigned> correct(logits.context(), 0);
  visit_float("count_correct", logits.dtype(), [&]<class T>(base::TypeTag<T>) {
    launch_count_correct<T>(stream_of(logits), options, logit_rows.data<T>(),
                            target_rows.data<std::int64_t>(), correct.on_device());
  });
  return correct.get();
}

}  // namespace lockstep::kernels::cuda

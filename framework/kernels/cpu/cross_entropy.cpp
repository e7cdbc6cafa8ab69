// Softmax and cross-entropy of a row in one go, and the accuracy that goes with it.
#include <algorithm>
#include <cmath>

#include "framework/kernels/cpu/cpu_kernels.h"
#include "framework/kernels/cpu/pack.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/reduce.h"
#include "framework/kernels/cpu/vector_math.h"
#include "framework/kernels/dispatch.h"
#include "framework/kernels/loss_operands.h"
#include "framework/kernels/noted_error.h"

namespace lockstep::kernels {
namespace {

// Smoothing mixes the target's distribution with the uniform one (Szegedy et al. 2016):
// weight `on` at the target and `off` at every class.
struct Smoothing {
  double on = 1, off = 0;
};

// The loss of one row; with `grad`, also softmax - target distribution.
template <class T>
double row_loss(std::int64_t classes, const T* logits, std::int64_t target, Smoothing smoothing,
                T* grad) {
  const T largest = lane_max(classes, logits);
  double sum;
  if (grad) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < classes; ++i) grad[i] = vector_exp(logits[i] - largest);
    sum = lane_sum(classes, [=](std::int64_t i) { return grad[i]; });
    const T factor = static_cast<T>(1 / sum), off = static_cast<T>(smoothing.off);
    for (std::int64_t i = 0; i < classes; ++i) grad[i] = grad[i] * factor - off;
    grad[target] -= static_cast<T>(smoothing.on);
  } else {
    sum = lane_sum(classes, [=](std::int64_t i) { return vector_exp(logits[i] - largest); });
  }
  const double log_sum = std::log(sum) + static_cast<double>(largest);
  double loss = smoothing.on * (log_sum - static_cast<double>(logits[target]));
  if (smoothing.off != 0) {
    const double logit_sum = lane_sum(classes, [=](std::int64_t i) { return logits[i]; });
    loss += smoothing.off * (static_cast<double>(classes) * log_sum - logit_sum);
  }
  return loss;
}

}  // namespace

void CpuKernels::cross_entropy(const Tensor& logits, const Tensor& targets,
                               const CrossEntropyOptions& options,
                               const CrossEntropyResult& result) const {
  require_cross_entropy(logits, targets, result);
  const std::int64_t ignore_index = options.ignore_index;
  const Tensor& grad = result.grad;
  const Tensor target_rows = contiguous(targets);
  const Tensor logit_rows = contiguous(logits);
  const std::int64_t rows = logits.shape()[0], classes = logits.shape()[1];
  const std::int64_t* const target_of = target_rows.data<std::int64_t>();
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (target_of[row] == ignore_index) continue;
    if (target_of[row] < 0 || target_of[row] >= classes) {
      throw_no_class(row, target_of[row], classes, ignore_index);
    }
    ++count;
  }
  const Smoothing smoothing{1 - options.label_smoothing,
                            options.label_smoothing / static_cast<double>(classes)};
  const Buffer memory(logits.context().allocator(),
                      static_cast<std::size_t>(rows) * sizeof(double));
  double* const losses = static_cast<double*>(memory.data());
  visit_float("cross_entropy", logits.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T* const from = logit_rows.data<T>();
    T* const to = grad.defined() ? grad.data<T>() : nullptr;
    for_row_blocks(logits.context(), rows, classes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        T* const row_grad = to ? to + row * classes : nullptr;
        if (target_of[row] == ignore_index) {
          losses[row] = 0;
          if (row_grad) std::fill_n(row_grad, classes, T(0));
        } else {
          losses[row] =
              row_loss(classes, from + row * classes, target_of[row], smoothing, row_grad);
        }
      }
    });
  });
  double sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) sum += losses[row];
  double* const total = result.total.data<double>();
  total[0] = result.accumulate ? total[0] + sum : sum;
  total[1] = (result.accumulate ? total[1] : 0) + static_cast<double>(count);
  if (result.loss.defined()) fill(result.scale * sum, result.loss);
}

void CpuKernels::count_correct(const Tensor& logits, const Tensor& targets,
                               std::int64_t ignore_index, const Tensor& correct,
                               bool accumulate) const {
  require_targets("count_correct", logits, targets);
  require_operand("count_correct", "correct", correct, {1}, DType::float64);
  const Tensor target_rows = contiguous(targets);
  const Tensor logit_rows = contiguous(logits);
  const std::int64_t rows = logits.shape()[0], classes = logits.shape()[1];
  const std::int64_t* const target_of = target_rows.data<std::int64_t>();
  visit_float("count_correct", logits.dtype(), [&]<class T>(base::TypeTag<T>) {
    const T* row = logit_rows.data<T>();
    std::int64_t hits = 0;
    for (std::int64_t i = 0; i < rows; ++i, row += classes) {
      if (target_of[i] != ignore_index &&
          std::max_element(row, row + classes) - row == target_of[i])
        ++hits;
    }
    double* const to = correct.data<double>();
    *to = (accumulate ? *to : 0) + static_cast<double>(hits);
  });
}

}  // namespace lockstep::kernels

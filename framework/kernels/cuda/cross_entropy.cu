#include "framework/kernels/cuda/cross_entropy.h"

#include "framework/kernels/cuda/note.cuh"
#include "framework/kernels/cuda/reduce.h"
#include "framework/kernels/cuda/rows.cuh"

namespace lockstep::kernels::cuda {
namespace {

__device__ bool is_class(std::int64_t target, std::int64_t classes) {
  return target >= 0 && target < classes;
}

// The loss of a row and, with `grad`, softmax - target distribution.
template <class T>
struct RowLoss {
  Rows rows;
  CrossEntropyRows options;
  const T* logits;
  const std::int64_t* targets;
  T* grad;
  double* losses;

  template <int warps>
  __device__ void operator()(const Team<warps>& team, std::int64_t row) const {
    const std::int64_t target = targets[row];
    const T* const in = logits + row * options.classes;
    T* const out = grad == nullptr ? nullptr : grad + row * options.classes;
    if (target == options.ignore_index || !is_class(target, options.classes)) {
      if (out != nullptr) {
        team.transform(options.classes, rows.aligned, out, [](std::int64_t) { return T(0); });
      }
      if (team.lane() == 0) losses[row] = 0;
      return;
    }
    const T largest = largest_of(team, rows, in);
    const double sum = sum_of_exponentials(team, rows, in, largest);
    if (out != nullptr) {
      const T factor = static_cast<T>(1 / sum);
      const T on = static_cast<T>(options.on), off = static_cast<T>(options.off);
      team.transform(
          options.classes, rows.aligned, out,
          [=](std::int64_t i, T z) {
            const T value = std::exp(z - largest) * factor - off;
            return i == target ? value - on : value;
          },
          in);
    }
    const double log_sum = std::log(sum) + static_cast<double>(largest);
    double loss = options.on * (log_sum - static_cast<double>(in[target]));
    if (options.off != 0) {
      double logit_sum = 0;
      team.visit(
          options.classes, rows.aligned,
          [&](std::int64_t, T z) { logit_sum += static_cast<double>(z); }, in);
      loss += options.off * (static_cast<double>(options.classes) * log_sum - team.sum(logit_sum));
    }
    if (team.lane() == 0) losses[row] = loss;
  }
};

// One block, so that the order of the sum is fixed by the number of rows.
template <class T>
__global__ void total_loss(CrossEntropyRows options, const std::int64_t* targets,
                           const double* losses, LossTotal<T> out) {
  const Team<warps_of_a_block> team;
  double sum = 0;
  std::int64_t count = 0, first_bad = options.rows;
  for (std::int64_t row = threadIdx.x; row < options.rows; row += blockDim.x) {
    sum += losses[row];
    if (targets[row] == options.ignore_index) continue;
    ++count;
    if (!is_class(targets[row], options.classes) && row < first_bad) first_bad = row;
  }
  sum = team.sum(sum);
  count = team.reduce(count, [](std::int64_t a, std::int64_t b) { return a + b; });
  first_bad = team.reduce(first_bad, [](std::int64_t a, std::int64_t b) { return a < b ? a : b; });
  if (threadIdx.x != 0) return;
  out.total[0] = out.accumulate ? out.total[0] + sum : sum;
  out.total[1] = (out.accumulate ? out.total[1] : 0) + static_cast<double>(count);
  if (out.loss != nullptr) *out.loss = static_cast<T>(out.scale * sum);
  if (first_bad < options.rows) {
    note(out.noted, {NotedError::target, first_bad, targets[first_bad], options.classes,
                     options.ignore_index});
  }
}

// The first of a row's largest logits against its target.
template <class T>
struct CountCorrect {
  Rows rows;
  std::int64_t ignore_index;
  const T* logits;
  const std::int64_t* targets;
  double* hits;

  template <int warps>
  __device__ void operator()(const Team<warps>& team, std::int64_t row) const {
    const T* const in = logits + row * rows.length;
    T best = in[0];
    std::int64_t at = 0;
    team.visit(
        rows.length, rows.aligned,
        [&](std::int64_t i, T z) {
          if (z > best) {
            best = z;
            at = i;
          }
        },
        in);
    const T largest = team.largest(best);
    std::int64_t first = team.reduce(best == largest ? at : rows.length,
                                     [](std::int64_t a, std::int64_t b) { return a < b ? a : b; });
    if (in[0] != in[0]) first = 0;  // nothing is larger than NaN
    if (team.lane() == 0) {
      hits[row] = targets[row] != ignore_index && targets[row] == first ? 1 : 0;
    }
  }
};

}  // namespace

template <class T>
void launch_cross_entropy(const device::CudaStream& stream, const CrossEntropyRows& options,
                          const T* logits, const std::int64_t* targets, T* grad, double* losses,
                          const LossTotal<T>& total) {
  const Rows rows = rows_of(options.rows, options.classes, logits, static_cast<const T*>(grad));
  launch_rows(stream, rows, RowLoss<T>{rows, options, logits, targets, grad, losses});
  device::launch(stream, {1, block_threads}, total_loss<T>, options, targets, losses, total);
}

template <class T>
void launch_count_correct(const device::CudaStream& stream, const CrossEntropyRows& options,
                          const T* logits, const std::int64_t* targets, double* hits,
                          double* correct, bool accumulate) {
  const Rows rows = rows_of(options.rows, options.classes, logits);
  launch_rows(stream, rows, CountCorrect<T>{rows, options.ignore_index, logits, targets, hits});
  launch_add_all(stream, options.rows, hits, correct, accumulate);
}

#define LOCKSTEP_CROSS_ENTROPY(T)                                                                  \
  template void launch_cross_entropy(const device::CudaStream&, const CrossEntropyRows&, const T*, \
                                     const std::int64_t*, T*, double*, const LossTotal<T>&);       \
  template void launch_count_correct(const device::CudaStream&, const CrossEntropyRows&, const T*, \
                                     const std::int64_t*, double*, double*, bool);
LOCKSTEP_CROSS_ENTROPY(float)
LOCKSTEP_CROSS_ENTROPY(double)
#undef LOCKSTEP_CROSS_ENTROPY

}  // namespace lockstep::kernels::cuda

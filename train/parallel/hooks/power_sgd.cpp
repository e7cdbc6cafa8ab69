#include "train/parallel/hooks/power_sgd.h"

#include <algorithm>

#include "train/parallel/hooks/cuda/power_sgd.h"
#include "train/parallel/hooks/low_rank.h"
#include "train/parallel/hooks/power_sgd_reduction.h"

namespace lockstep::train {
namespace {

// As tasks of the stream.
class HostPowerSgd {
 public:
  explicit HostPowerSgd(Context&) {}

  template <class T>
  void project(const PowerSgdBucket<T>& bucket, Stream& stream) const {
    stream.enqueue([bucket] {
      for (const Matrix& matrix : *bucket.matrices) {
        T* const basis = bucket.basis + matrix.right;
        const T* const drawn = bucket.drawn + matrix.right;
        const MatrixView<T> view{bucket.gradients + matrix.begin, matrix.rows, matrix.columns};
        add_multiple(bucket.factor, bucket.before + matrix.begin, matrix.count(), view.data);
        for (int j = 0; j < bucket.rank; ++j) {
          if (orthonormalize(basis, matrix.columns, j)) continue;
          std::copy_n(drawn + j * matrix.columns, matrix.columns, basis + j * matrix.columns);
          orthonormalize(basis, matrix.columns, j);
        }
        multiply(view, basis, bucket.rank, bucket.left + matrix.left);
      }
    });
  }

  template <class T>
  void factorize(const PowerSgdBucket<T>& bucket, Stream& stream) const {
    stream.enqueue([bucket] {
      for (const Matrix& matrix : *bucket.matrices) {
        T* const left = bucket.left + matrix.left;
        T* const right = bucket.right + matrix.right;
        const MatrixView<T> view{bucket.gradients + matrix.begin, matrix.rows, matrix.columns};
        const MatrixView<T> rest{bucket.rest + matrix.begin, matrix.rows, matrix.columns};
        for (int j = 0; j < bucket.rank; ++j) orthonormalize(left, matrix.rows, j);
        multiply_transposed(view, left, bucket.rank, right);
        std::copy_n(view.data, matrix.count(), rest.data);
        add_product(T(-1), left, right, bucket.rank, rest);
      }
    });
  }

  template <class T>
  void restore(const PowerSgdBucket<T>& bucket, Stream& stream) const {
    stream.enqueue([bucket] {
      for (const Matrix& matrix : *bucket.matrices) {
        const MatrixView<T> view{bucket.gradients + matrix.begin, matrix.rows, matrix.columns};
        std::fill_n(view.data, matrix.count(), T(0));
        add_product(T(1), bucket.left + matrix.left, bucket.right + matrix.right, bucket.rank,
                    view);
      }
    });
  }
};

}  // namespace

std::unique_ptr<comm::BucketReduction> make_power_sgd_hook(comm::Communicator& communicator,
                                                           const nn::ParameterArena& arena,
                                                           const comm::BucketPlan& plan,
                                                           const PowerSgdOptions& options) {
  if (arena.segments().front().gradients.device().kind == DeviceKind::cuda)
    return make_cuda_power_sgd_hook(communicator, arena, plan, options);
  return std::make_unique<PowerSgdReduction<HostPowerSgd>>(communicator, arena, plan, options);
}

}  // namespace lockstep::train

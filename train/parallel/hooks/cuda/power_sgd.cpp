#include "train/parallel/hooks/cuda/power_sgd.h"

#include <vector>

#include "framework/kernels/cuda/cublas.h"
#include "train/parallel/hooks/cuda/low_rank_kernels.h"
#include "train/parallel/hooks/power_sgd_reduction.h"

namespace lockstep::train {
namespace {

// What each rank multiplies for itself, and all add up, is cuBLAS's, always in the gradients' own
// type. What all ranks compute from the same bits is not: cuBLAS chooses its kernel by the GPU, and
// P Q^T must be the same everywhere.
class CudaPowerSgd {
 public:
  explicit CudaPowerSgd(Context& context) : cublas_(context) {}

  template <class T>
  void project(const PowerSgdBucket<T>& bucket, Stream& stream) {
    const device::CudaStream& cuda = device::cuda_stream(stream);
    sets_.clear();
    for (const Matrix& matrix : *bucket.matrices) {
      launch_add_multiple(cuda, bucket.factor, bucket.before + matrix.begin, matrix.count(),
                          bucket.gradients + matrix.begin);
      sets_.push_back({matrix.right, matrix.columns});
    }
    launch_orthonormalize<T>(cuda, sets_, bucket.rank, bucket.basis, bucket.drawn);
    cublas_.use_stream(cuda);
    // Row-major matrices are the transposes of column-major ones.
    for (const Matrix& matrix : *bucket.matrices)
      cublas_.multiply({.m = matrix.rows,
                        .n = bucket.rank,
                        .k = matrix.columns,
                        .a = {bucket.gradients + matrix.begin, matrix.columns, true},
                        .b = {bucket.basis + matrix.right, matrix.columns},
                        .c = {bucket.left + matrix.left, matrix.rows},
                        .factors = base::dtype_of<T>(),
                        .result = base::dtype_of<T>()});
  }

  template <class T>
  void factorize(const PowerSgdBucket<T>& bucket, Stream& stream) {
    const device::CudaStream& cuda = device::cuda_stream(stream);
    sets_.clear();
    for (const Matrix& matrix : *bucket.matrices) sets_.push_back({matrix.left, matrix.rows});
    launch_orthonormalize<T>(cuda, sets_, bucket.rank, bucket.left, nullptr);
    cublas_.use_stream(cuda);
    for (const Matrix& matrix : *bucket.matrices) {
      cublas_.multiply({.m = matrix.columns,
                        .n = bucket.rank,
                        .k = matrix.rows,
                        .a = {bucket.gradients + matrix.begin, matrix.columns},
                        .b = {bucket.left + matrix.left, matrix.rows},
                        .c = {bucket.right + matrix.right, matrix.columns},
                        .factors = base::dtype_of<T>(),
                        .result = base::dtype_of<T>()});
      launch_add_product(cuda, factors_of(bucket, matrix), T(-1), bucket.gradients + matrix.begin,
                         bucket.rest + matrix.begin);
    }
  }

  template <class T>
  void restore(const PowerSgdBucket<T>& bucket, Stream& stream) const {
    const device::CudaStream& cuda = device::cuda_stream(stream);
    for (const Matrix& matrix : *bucket.matrices)
      launch_add_product<T>(cuda, factors_of(bucket, matrix), T(1), nullptr,
                            bucket.gradients + matrix.begin);
  }

 private:
  template <class T>
  static LowRankFactors<T> factors_of(const PowerSgdBucket<T>& bucket, const Matrix& matrix) {
    return {.rows = matrix.rows,
            .columns = matrix.columns,
            .rank = bucket.rank,
            .left = bucket.left + matrix.left,
            .right = bucket.right + matrix.right};
  }

  kernels::cuda::Cublas cublas_;
  std::vector<VectorSet> sets_;  // of the launch at hand
};

}  // namespace

std::unique_ptr<comm::BucketReduction> make_cuda_power_sgd_hook(comm::Communicator& communicator,
                                                                const nn::ParameterArena& arena,
                                                                const comm::BucketPlan& plan,
                                                                const PowerSgdOptions& options) {
  return std::make_unique<PowerSgdReduction<CudaPowerSgd>>(communicator, arena, plan, options);
}

}  // namespace lockstep::train

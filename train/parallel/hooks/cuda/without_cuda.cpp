// Stands in for this folder where there is no CUDA toolkit.
#include "framework/base/error.h"
#include "train/parallel/hooks/cuda/half.h"

namespace lockstep::train {

template <class Half>
std::unique_ptr<comm::BucketReduction> make_cuda_half_hook(comm::Communicator&, Context&,
                                                           const comm::BucketPlan&) {
  throw UsageError("this program was built without CUDA");
}

template std::unique_ptr<comm::BucketReduction> make_cuda_half_hook<bfloat16>(
    comm::Communicator&, Context&, const comm::BucketPlan&);
template std::unique_ptr<comm::BucketReduction> make_cuda_half_hook<float16>(
    comm::Communicator&, Context&, const comm::BucketPlan&);

}  // namespace lockstep::train

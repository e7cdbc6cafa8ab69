// Stands in for this folder where there is no CUDA toolkit.
#include "framework/base/error.h"
#include "train/parallel/hooks/cuda/half.h"
#include "train/parallel/hooks/cuda/power_sgd.h"
#include "train/parallel/hooks/cuda/top_k.h"

namespace lockstep::train {
namespace {

[[noreturn]] void refuse() {
  throw UsageError("this program was built without CUDA");
}

}  // namespace

template <class Half>
std::unique_ptr<comm::BucketReduction> make_cuda_half_hook(comm::Communicator&, Context&,
                                                           const comm::BucketPlan&) {
  refuse();
}

template std::unique_ptr<comm::BucketReduction> make_cuda_half_hook<bfloat16>(
    comm::Communicator&, Context&, const comm::BucketPlan&);
template std::unique_ptr<comm::BucketReduction> make_cuda_half_hook<float16>(
    comm::Communicator&, Context&, const comm::BucketPlan&);

std::unique_ptr<comm::BucketReduction> make_cuda_top_k_hook(comm::Communicator&,
                                                            const nn::ParameterArena&,
                                                            const comm::BucketPlan&,
                                                            const TopKOptions&) {
  refuse();
}

std::unique_ptr<comm::BucketReduction> make_cuda_power_sgd_hook(comm::Communicator&,
                                                                const nn::ParameterArena&,
                                                                const comm::BucketPlan&,
                                                                const PowerSgdOptions&) {
  refuse();
}

}  // namespace lockstep::train

#include "train/parallel/hooks/cuda/top_k.h"

#include <algorithm>

#include "train/parallel/hooks/cuda/top_k_kernels.h"
#include "train/parallel/hooks/top_k_reduction.h"

namespace lockstep::train {
namespace {

// As kernels on the stream, on which one message is added after the other.
class CudaTopK {
 public:
  CudaTopK(Context& context, const comm::BucketPlan& plan) {
    std::int64_t largest = 0;
    for (const comm::Bucket& bucket : plan.buckets) largest = std::max(largest, bucket.count());
    scratch_ = Buffer(context.allocator(), selection_scratch_bytes(largest));
  }

  template <class T>
  void select(const TopKBucket<T>& bucket, const TopKMessage<T>& message, Stream& stream) const {
    launch_selection(device::cuda_stream(stream), bucket, message, scratch_.data());
  }
  template <class T>
  void clear(const TopKBucket<T>& bucket, Stream& stream) const {
    const device::CudaStream& cuda = device::cuda_stream(stream);
    cuda.activate();
    device::check_cuda(
        cudaMemsetAsync(bucket.gradients, 0, static_cast<std::size_t>(bucket.count) * sizeof(T),
                        cuda.native()),
        "cudaMemsetAsync", cuda.place());
  }
  template <class T>
  void add(const TopKMessage<T>& message, const TopKBucket<T>& bucket, Stream& stream) const {
    launch_add_message(device::cuda_stream(stream), message, bucket);
  }

 private:
  Buffer scratch_;  // of one bucket at a time
};

}  // namespace

std::unique_ptr<comm::BucketReduction> make_cuda_top_k_hook(comm::Communicator& communicator,
                                                            const nn::ParameterArena& arena,
                                                            const comm::BucketPlan& plan,
                                                            const TopKOptions& options) {
  return std::make_unique<TopKReduction<CudaTopK>>(communicator, arena, plan, options);
}

}  // namespace lockstep::train

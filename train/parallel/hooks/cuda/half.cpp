#include "train/parallel/hooks/cuda/half.h"

#include "train/parallel/hooks/cuda/half_kernels.h"
#include "train/parallel/hooks/half_reduction.h"

namespace lockstep::train {
namespace {

template <class Half>
class CudaHalfReduction final : public HalfReduction<Half> {
 public:
  using Base = HalfReduction<Half>;
  using Base::Base;

 private:
  void find_peak(const comm::Range& gradients, Stream& stream) override {
    Base::visit(gradients, [&](const auto* values, std::int64_t count) {
      launch_find_peak(device::cuda_stream(stream), values, count, this->peak());
    });
  }
  void encode(const comm::Range& gradients, Stream& stream) override {
    Base::visit(gradients, [&](const auto* values, std::int64_t count) {
      launch_encode(device::cuda_stream(stream), values, count, scale(), this->wire());
    });
  }
  void decode(const comm::Range& gradients, Stream& stream) override {
    Base::visit(gradients, [&](auto* values, std::int64_t count) {
      launch_decode(device::cuda_stream(stream), this->wire(), count, scale(), values);
    });
  }

  HalfScale scale() const { return {Base::is_scaled ? this->peak() : nullptr, this->ranks()}; }
};

}  // namespace

template <class Half>
std::unique_ptr<comm::BucketReduction> make_cuda_half_hook(comm::Communicator& communicator,
                                                           Context& context,
                                                           const comm::BucketPlan& plan) {
  return std::make_unique<CudaHalfReduction<Half>>(communicator, context, plan);
}

template std::unique_ptr<comm::BucketReduction> make_cuda_half_hook<bfloat16>(
    comm::Communicator&, Context&, const comm::BucketPlan&);
template std::unique_ptr<comm::BucketReduction> make_cuda_half_hook<float16>(
    comm::Communicator&, Context&, const comm::BucketPlan&);

}  // namespace lockstep::train

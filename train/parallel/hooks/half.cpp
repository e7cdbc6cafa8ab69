#include "train/parallel/hooks/half.h"

#include <bit>

#include "train/parallel/hooks/cuda/half.h"
#include "train/parallel/hooks/half_reduction.h"
#include "train/parallel/hooks/half_scale.h"
#include "train/parallel/hooks/selection.h"

namespace lockstep::train {
namespace {

// Of the values as floats; NaN if one is, whatever the others are: its bits are the largest.
template <class T>
float largest_magnitude(const T* values, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(values[i]));
  return std::bit_cast<float>(largest);
}

template <class T, class Half>
void encode_values(const T* from, std::int64_t count, float scale, Half* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Half(static_cast<float>(from[i]) * scale);
}

template <class T, class Half>
void decode_values(const Half* from, std::int64_t count, float scale, T* to) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<T>(static_cast<float>(from[i]) * scale);
}

// As tasks of the stream.
template <class Half>
class HostHalfReduction final : public HalfReduction<Half> {
 public:
  using Base = HalfReduction<Half>;
  using Base::Base;

 private:
  void find_peak(const comm::Range& gradients, Stream& stream) override {
    stream.enqueue([this, gradients] {
      Base::visit(gradients, [this](const auto* values, std::int64_t count) {
        *this->peak() = largest_magnitude(values, count);
      });
    });
  }
  void encode(const comm::Range& gradients, Stream& stream) override {
    stream.enqueue([this, gradients] {
      exponent_ = Base::is_scaled ? scale_exponent(*this->peak(), this->ranks()) : 0;
      Base::visit(gradients, [this](const auto* values, std::int64_t count) {
        encode_values(values, count, power_of_two(exponent_), this->wire());
      });
    });
  }
  void decode(const comm::Range& gradients, Stream& stream) override {
    stream.enqueue([this, gradients] {
      Base::visit(gradients, [this](auto* values, std::int64_t count) {
        decode_values(this->wire(), count, power_of_two(-exponent_), values);
      });
    });
  }

  int exponent_ = 0;  // of the bucket on the stream
};

template <class Half>
std::unique_ptr<comm::BucketReduction> make_half_hook(comm::Communicator& communicator,
                                                      const nn::ParameterArena& arena,
                                                      const comm::BucketPlan& plan) {
  Context& context = arena.segments().front().gradients.context();
  if (context.device().kind == DeviceKind::cuda)
    return make_cuda_half_hook<Half>(communicator, context, plan);
  return std::make_unique<HostHalfReduction<Half>>(communicator, context, plan);
}

}  // namespace

std::unique_ptr<comm::BucketReduction> make_bf16_hook(comm::Communicator& communicator,
                                                      const nn::ParameterArena& arena,
                                                      const comm::BucketPlan& plan) {
  return make_half_hook<bfloat16>(communicator, arena, plan);
}

std::unique_ptr<comm::BucketReduction> make_fp16_hook(comm::Communicator& communicator,
                                                      const nn::ParameterArena& arena,
                                                      const comm::BucketPlan& plan) {
  return make_half_hook<float16>(communicator, arena, plan);
}

}  // namespace lockstep::train

#include "train/parallel/hooks/half.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "train/parallel/hooks/selection.h"
#include "train/parallel/peer_memory.h"

namespace lockstep::train {
namespace {

using comm::CollectiveKind;
using comm::Range;
using comm::ReduceOp;

// Of the values as floats; NaN if one is, whatever the others are: its bits are the largest.
template <class T>
float largest_magnitude(const T* values, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(values[i]));
  return std::bit_cast<float>(largest);
}

// The exponent of the scale with which `ranks` numbers up to `largest` add up to at most 2^15.
int scale_exponent(float largest, int ranks) {
  if (largest == 0 || !std::isfinite(largest)) return 0;  // what is not finite stays so
  int exponent = 0;
  std::frexp(static_cast<double>(largest) * ranks, &exponent);
  return std::min(15 - exponent, 126);  // both the scale and its inverse are floats
}

template <class T, class Half>
void encode(const T* from, std::int64_t count, float scale, Half* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Half(static_cast<float>(from[i]) * scale);
}

template <class T, class Half>
void decode(const Half* from, std::int64_t count, float scale, T* to) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<T>(static_cast<float>(from[i]) * scale);
}

template <class Half>
class HalfReduction final : public comm::BucketReduction {
 public:
  static constexpr bool is_scaled = std::is_same_v<Half, float16>;

  HalfReduction(comm::Communicator& communicator, Context& context, const comm::BucketPlan& plan)
      : communicator_(communicator) {
    std::int64_t largest = 0;
    for (const comm::Bucket& bucket : plan.buckets) largest = std::max(largest, bucket.count());
    memory_ = peer_memory(communicator, context,
                          header_bytes + static_cast<std::size_t>(largest) * sizeof(Half));
    peak_ = static_cast<float*>(memory_.data());
    wire_ = reinterpret_cast<Half*>(static_cast<std::byte*>(memory_.data()) + header_bytes);
  }

  std::string_view name() const override { return is_scaled ? "fp16" : "bf16"; }

  Started reduce(std::size_t bucket, Range gradients, Stream& stream) override {
    const auto tag = static_cast<comm::Tag>(bucket);
    std::vector<comm::Work> works;
    if (is_scaled) {
      stream.enqueue([this, gradients] {
        visit(gradients, [this](auto* values, std::int64_t count) {
          *peak_ = largest_magnitude(values, count);
        });
      });
      works.push_back(
          communicator_.all_reduce({peak_, 1, DType::float32}, ReduceOp::max, stream, tag));
    }
    stream.enqueue([this, gradients] {
      exponent_ = is_scaled ? scale_exponent(*peak_, communicator_.size()) : 0;
      visit(gradients, [this](auto* values, std::int64_t count) {
        encode(values, count, std::ldexp(1.0f, exponent_), wire_);
      });
    });
    works.push_back(communicator_.all_reduce({wire_, gradients.count, base::dtype_of<Half>()},
                                             ReduceOp::sum, stream, tag));
    stream.enqueue([this, gradients] {
      visit(gradients, [this](auto* values, std::int64_t count) {
        decode(wire_, count, std::ldexp(1.0f, -exponent_), values);
      });
    });
    const std::size_t bytes = bytes_of(gradients.count);
    return {comm::join(std::move(works), stream), bytes,
            comm::bytes_sent(CollectiveKind::all_reduce, bytes, communicator_.size())};
  }

 private:
  static constexpr std::size_t header_bytes = 64;  // keeps the numbers behind it aligned

  // As they travel: some backends have no 16-bit arithmetic.
  std::size_t bytes_of(std::int64_t count) const {
    const std::size_t width =
        communicator_.capabilities().widens_16_bit ? sizeof(float) : sizeof(Half);
    return static_cast<std::size_t>(count) * width + (is_scaled ? sizeof(float) : 0);
  }

  template <class F>
  static void visit(Range gradients, F&& f) {
    if (gradients.dtype == DType::float64)
      f(static_cast<double*>(gradients.data), gradients.count);
    else
      f(static_cast<float*>(gradients.data), gradients.count);
  }

  comm::Communicator& communicator_;
  Buffer memory_;
  float* peak_ = nullptr;
  Half* wire_ = nullptr;
  int exponent_ = 0;  // of the bucket on the stream
};

Context& context_of(const nn::ParameterArena& arena) {
  return arena.segments().front().gradients.context();
}

}  // namespace

std::unique_ptr<comm::BucketReduction> make_bf16_hook(comm::Communicator& communicator,
                                                      const nn::ParameterArena& arena,
                                                      const comm::BucketPlan& plan) {
  return std::make_unique<HalfReduction<bfloat16>>(communicator, context_of(arena), plan);
}

std::unique_ptr<comm::BucketReduction> make_fp16_hook(comm::Communicator& communicator,
                                                      const nn::ParameterArena& arena,
                                                      const comm::BucketPlan& plan) {
  return std::make_unique<HalfReduction<float16>>(communicator, context_of(arena), plan);
}

}  // namespace lockstep::train

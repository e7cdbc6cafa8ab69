#include "framework/base/error.h"
#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();

// In the arithmetic of the result's type, so to the last bit.
template <class T>
Values expected_of(const Tensor& x, const Tensor& factor, const Tensor& offset) {
  const Values stored = values_of(x);
  const auto factors = factor.to_vector<T>(), offsets = offset.to_vector<T>();
  Values expected;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::size_t channel =
        i / static_cast<std::size_t>(x.shape()[2]) % static_cast<std::size_t>(x.shape()[1]);
    const T scaled = static_cast<T>(stored[i]) * factors[channel];
    expected.push_back(static_cast<double>(scaled + offsets[channel]));
  }
  return expected;
}

TEST(NormalizeChannels, IsOneMultiplicationAndOneAdditionForEachChannel) {
  const auto context = make_test_context(2);
  Random random(1);
  for (int trial = 0; trial < trials(200); ++trial) {
    const DType stored = trial % 2 == 0 ? DType::uint8 : DType::float32;
    const DType dtype = float_types[trial / 2 % 2];
    const Shape shape{random.integer(0, 9), random.integer(1, 4),
                      random.integer(0, 3) == 0 ? random.integer(1, 2000) : random.integer(1, 9)};
    const Tensor x = random_tensor(*context, random, shape, stored, Layout::contiguous, 0, 255.9);
    const Tensor factor = random_tensor(*context, random, {shape[1]}, dtype);
    const Tensor offset = random_tensor(*context, random, {shape[1]}, dtype);
    const Tensor out = Tensor::empty(*context, shape, dtype);
    kernels.normalize_channels(x, factor, offset, out);
    expect_close(out,
                 dtype == DType::float32 ? expected_of<float>(x, factor, offset)
                                         : expected_of<double>(x, factor, offset),
                 0);
  }
}

// Rows that begin at any byte.
TEST(NormalizeChannels, TakesViewsThatAreNotAligned) {
  const auto context = make_test_context();
  Random random(2);
  const Tensor bytes =
      random_tensor(*context, random, {67}, DType::uint8, Layout::contiguous, 0, 255.9);
  const Tensor factor = random_tensor(*context, random, {2}, DType::float32);
  const Tensor offset = random_tensor(*context, random, {2}, DType::float32);
  for (std::int64_t begin = 0; begin < 3; ++begin) {
    const Tensor x = bytes.slice(0, begin, begin + 64).reshape({2, 2, 16});
    const Tensor out =
        Tensor::empty(*context, {68}).slice(0, begin, begin + 64).reshape({2, 2, 16});
    kernels.normalize_channels(x, factor, offset, out);
    expect_close(out, expected_of<float>(x, factor, offset), 0);
  }
}

TEST(NormalizeChannels, RefusesWhatDoesNotFit) {
  const auto context = make_test_context();
  const auto tensor = [&](const Shape& shape, DType dtype = DType::float32) {
    return Tensor::empty(*context, shape, dtype);
  };
  const Tensor x = tensor({2, 3, 4}, DType::uint8), three = tensor({3}), out = tensor({2, 3, 4});
  EXPECT_THROW(kernels.normalize_channels(tensor({2, 3, 5}, DType::uint8), three, three, out),
               UsageError);
  EXPECT_THROW(kernels.normalize_channels(x, tensor({4}), three, out), UsageError);
  EXPECT_THROW(kernels.normalize_channels(x, three, tensor({2}), out), UsageError);
  EXPECT_THROW(kernels.normalize_channels(tensor({2, 3, 4}, DType::int64), three, three, out),
               UsageError);
  EXPECT_THROW(kernels.normalize_channels(x, three, three, tensor({2, 3, 4}, DType::int32)),
               UsageError);
}

}  // namespace
}  // namespace lockstep::kernels::testing

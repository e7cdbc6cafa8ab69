// The selection on a GPU takes what sorting takes, bit for bit.
#include "train/parallel/hooks/cuda/top_k_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "framework/tensor/tensor.h"
#include "tests/train/parallel/thread_ranks.h"
#include "train/parallel/hooks/selection.h"

namespace lockstep::train {
namespace {

template <class T>
struct Selected {
  std::vector<std::int32_t> indices;
  std::vector<T> values, rest;
};

template <class T>
Selected<T> expected_of(const std::vector<T>& gradients, const std::vector<T>& before, T factor,
                        std::int64_t k) {
  Selected<T> expected;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    expected.rest.push_back(gradients[i] + factor * before[i]);
  std::vector<std::int32_t> order(gradients.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](std::int32_t i) -> T& { return expected.rest[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return magnitude_bits(at(a)) > magnitude_bits(at(b));
  });
  order.resize(static_cast<std::size_t>(k));
  std::sort(order.begin(), order.end());
  const bool finite = std::all_of(expected.rest.begin(), expected.rest.end(),
                                  [](T value) { return std::isfinite(value); });
  for (const std::int32_t i : order) {
    expected.values.push_back(finite ? at(i) : std::numeric_limits<T>::quiet_NaN());
    at(i) = 0;
  }
  expected.indices = order;
  return expected;
}

// With `skew` elements between the beginning of an allocation and each operand; in place, as where
// no step is taken back, or not.
template <class T>
Selected<T> select(Context& context, const std::vector<T>& gradients, const std::vector<T>& before,
                   T factor, std::int64_t k, std::int64_t skew, bool in_place) {
  const auto count = static_cast<std::int64_t>(gradients.size());
  const auto on_device = [&](const std::vector<T>& values) {
    const Tensor whole = Tensor::empty(context, {count + skew}, base::dtype_of<T>());
    const Tensor tensor = whole.slice(0, skew, skew + count);
    context.upload(tensor.data(), values.data(), tensor.bytes());
    return tensor;
  };
  const Tensor x = on_device(gradients), y = on_device(before),
               rest = in_place ? y : on_device(std::vector<T>(gradients.size()));
  const Tensor indices = Tensor::empty(context, {k}, DType::int32);
  const Tensor values = Tensor::empty(context, {k}, base::dtype_of<T>());
  const Buffer scratch(context.allocator(), selection_scratch_bytes(count));
  TopKMessage<T> message(nullptr, 0, 0);
  message.indices = indices.data<std::int32_t>();
  message.values = values.data<T>();
  launch_selection<T>(device::cuda_stream(context.compute_stream()),
                      {.gradients = x.data<T>(),
                       .count = count,
                       .k = k,
                       .before = y.data<T>(),
                       .factor = factor,
                       .rest = rest.data<T>()},
                      message, scratch.data());
  return {indices.to_vector<std::int32_t>(), values.to_vector<T>(), rest.to_vector<T>()};
}

// NaN equals NaN.
template <class T>
bool are_same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](T u, T v) { return u == v || (u != u && v != v); });
}

template <class T>
void expect_what_sorting_takes(Context& context, const std::vector<T>& gradients,
                               const std::vector<T>& before, std::int64_t k, int trial) {
  const T factor = trial % 3 == 0 ? T(0.5) : T(1);
  const auto expected = expected_of(gradients, before, factor, k);
  const auto found = select(context, gradients, before, factor, k, trial % 4, trial % 2 == 0);
  EXPECT_EQ(found.indices, expected.indices) << "trial " << trial;
  EXPECT_TRUE(are_same(found.values, expected.values)) << "trial " << trial;
  EXPECT_TRUE(are_same(found.rest, expected.rest)) << "trial " << trial;
}

template <class T>
class SelectionKernels : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SelectionKernels, Types);

TYPED_TEST(SelectionKernels, TakesWhatSortingTakes) {
  using T = TypeParam;
  const auto context = make_rank_context(0);
  std::mt19937 engine(7);
  const auto below = [&](std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(engine);
  };
  for (int trial = 0; trial < 24; ++trial) {
    std::vector<T> gradients(static_cast<std::size_t>(1 + below(trial % 5 == 0 ? 9000 : 700)));
    std::vector<T> before(gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      // Of few values, most of them zero; or of all magnitudes.
      gradients[i] = trial % 2 ? static_cast<T>(std::max<std::int64_t>(0, below(9) - 5))
                               : std::ldexp(static_cast<T>(below(2000) - 1000),
                                            static_cast<int>(below(80)) - 40);
      before[i] = trial % 4 < 2 ? T(0) : static_cast<T>(below(3) - 1);
    }
    const std::int64_t k = 1 + below(static_cast<std::int64_t>(gradients.size()));
    expect_what_sorting_takes(*context, gradients, before, k, trial);
  }
}

TYPED_TEST(SelectionKernels, OfEqualElementsTakesTheFirst) {
  using T = TypeParam;
  const auto context = make_rank_context(0);
  int trial = 0;
  for (const T value : {T(0), T(-0.0), T(1), T(-2.5)})
    for (const std::int64_t count : {1, 31, 1024, 3000})
      for (const std::int64_t k : {std::int64_t{1}, (count + 1) / 2, count}) {
        std::vector<T> gradients(static_cast<std::size_t>(count), value);
        if (trial % 2) gradients.back() = -value;
        expect_what_sorting_takes(*context, gradients, std::vector<T>(gradients.size()), k,
                                  trial++);
      }
}

TYPED_TEST(SelectionKernels, SaysNaNWhereAnElementIsNotFinite) {
  using T = TypeParam;
  const auto context = make_rank_context(0);
  int trial = 0;
  for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                      -std::numeric_limits<T>::infinity()})
    for (const std::size_t place : {0u, 1500u, 2999u}) {
      std::vector<T> gradients(3000);
      for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = static_cast<T>(i % 17);
      gradients[place] = bad;
      expect_what_sorting_takes(*context, gradients, std::vector<T>(gradients.size()), 1 + trial,
                                trial);
      ++trial;
    }
}

// As a collective that failed may leave.
TEST(AddMessage, PassesOverIndicesThatAreNone) {
  const auto context = make_rank_context(0);
  const Tensor indices = Tensor::from<std::int32_t>(*context, {2, -1, 5, 1 << 30, 0}, {5});
  const Tensor values = Tensor::from<float>(*context, {1, 2, 4, 8, 16}, {5});
  const Tensor sums = Tensor::from<float>(*context, {0, 0, 32, 0, 0}, {5});
  TopKMessage<float> message(nullptr, 0, 0);
  message.indices = indices.data<std::int32_t>();
  message.values = values.data<float>();
  TopKBucket<float> bucket{};
  bucket.gradients = sums.data<float>();
  bucket.count = bucket.k = 5;
  launch_add_message(device::cuda_stream(context->compute_stream()), message, bucket);
  EXPECT_EQ(sums.to_vector<float>(), (std::vector<float>{16, 0, 33, 0, 0}));
}

}  // namespace
}  // namespace lockstep::train

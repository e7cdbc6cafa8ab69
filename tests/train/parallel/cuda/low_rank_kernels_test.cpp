// The kernels of power_sgd against the same arithmetic on the CPU.
#include "train/parallel/hooks/cuda/low_rank_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "framework/tensor/tensor.h"
#include "tests/train/parallel/thread_ranks.h"
#include "train/parallel/hooks/low_rank.h"

namespace lockstep::train {
namespace {

const device::CudaStream& stream_of(Context& context) {
  return device::cuda_stream(context.compute_stream());
}

class Draws {
 public:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  template <class T>
  std::vector<T> normal(std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    std::normal_distribution<T> normal;
    for (T& value : values) value = normal(engine_);
    return values;
  }

 private:
  std::mt19937_64 engine_{3};
};

template <class T>
Tensor on_device(Context& context, const std::vector<T>& values) {
  return Tensor::from<T>(context, values, {static_cast<std::int64_t>(values.size())});
}

template <class T>
class LowRankKernels : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LowRankKernels, Types);

template <class T>
constexpr double rounding = std::is_same_v<T, float> ? 1e-5 : 1e-13;

// More sets than a launch takes, of which every third depends on itself in its last vector.
TYPED_TEST(LowRankKernels, OrthonormalizeAsTheCpuDoes) {
  using T = TypeParam;
  const auto context = make_rank_context(0);
  Draws draws;
  constexpr int rank = 3;
  for (const bool has_drawn : {false, true}) {
    std::vector<VectorSet> sets;
    std::vector<T> vectors, drawn;
    for (int s = 0; s < 70; ++s) {
      const std::int64_t length = s == 4 ? 1300 : draws.between(rank, 60);
      sets.push_back({static_cast<std::int64_t>(vectors.size()), length});
      auto set = draws.normal<T>(rank * length);
      for (T& value : set) value *= static_cast<T>(1e-10);
      if (s % 3 == 0)
        for (std::int64_t i = 0; i < length; ++i)
          set[static_cast<std::size_t>(2 * length + i)] = 3 * set[static_cast<std::size_t>(i)];
      if (s == 6) std::fill(set.begin(), set.end(), T(0));
      vectors.insert(vectors.end(), set.begin(), set.end());
      const auto other = draws.normal<T>(rank * length);
      drawn.insert(drawn.end(), other.begin(), other.end());
    }
    const Tensor of_vectors = on_device(*context, vectors), of_drawn = on_device(*context, drawn);
    launch_orthonormalize<T>(stream_of(*context), sets, rank, of_vectors.template data<T>(),
                             has_drawn ? of_drawn.template data<T>() : nullptr);
    const auto found = of_vectors.template to_vector<T>();
    for (const VectorSet& set : sets) {
      T* const expected = vectors.data() + set.begin;
      for (int j = 0; j < rank; ++j) {
        if (orthonormalize(expected, set.length, j) || !has_drawn) continue;
        std::copy_n(drawn.data() + set.begin + j * set.length, set.length,
                    expected + j * set.length);
        orthonormalize(expected, set.length, j);
      }
      for (std::int64_t i = 0; i < rank * set.length; ++i)
        ASSERT_NEAR(found[static_cast<std::size_t>(set.begin + i)], expected[i], rounding<T>)
            << "set at " << set.begin << ", element " << i;
    }
  }
}

TYPED_TEST(LowRankKernels, NanSpreadsThroughABasis) {
  using T = TypeParam;
  const auto context = make_rank_context(0);
  for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
    auto vectors = Draws().normal<T>(40);
    vectors[25] = bad;
    const Tensor all = on_device(*context, vectors);
    const VectorSet set{0, 20};
    launch_orthonormalize<T>(stream_of(*context), {&set, 1}, 2, all.template data<T>(),
                             all.template data<T>());
    const auto found = all.template to_vector<T>();
    EXPECT_TRUE(std::isfinite(found[3]));
    EXPECT_TRUE(std::isnan(found[20]) && std::isnan(found[25]));
  }
}

TYPED_TEST(LowRankKernels, AddProductsWithTheBitsOfTheCpu) {
  using T = TypeParam;
  const auto context = make_rank_context(0);
  Draws draws;
  for (int trial = 0; trial < 30; ++trial) {
    const std::int64_t rows = draws.between(1, 40), rank = draws.between(1, 9);
    const std::int64_t columns = trial % 3 == 0 ? 4 * draws.between(1, 20) : draws.between(1, 90);
    const std::int64_t skew = trial % 2;
    const auto left = draws.normal<T>(rank * rows), right = draws.normal<T>(rank * columns);
    const auto addend = draws.normal<T>(rows * columns + skew);
    const Tensor p = on_device(*context, left), q = on_device(*context, right),
                 m = on_device(*context, addend),
                 other = on_device(*context, draws.normal<T>(rows * columns + skew));
    const bool has_addend = trial % 5 != 0, in_place = trial % 4 == 0;
    const Tensor& out = in_place ? m : other;
    const T sign = has_addend ? T(-1) : T(1);
    launch_add_product<T>(stream_of(*context),
                          {.rows = rows,
                           .columns = columns,
                           .rank = static_cast<int>(rank),
                           .left = p.template data<T>(),
                           .right = q.template data<T>()},
                          sign, has_addend ? m.template data<T>() + skew : nullptr,
                          out.template data<T>() + skew);
    std::vector<T> expected(static_cast<std::size_t>(rows * columns));
    if (has_addend) std::copy_n(addend.begin() + skew, expected.size(), expected.begin());
    add_product(sign, left.data(), right.data(), static_cast<int>(rank),
                MatrixView<T>{expected.data(), rows, columns});
    const auto found = out.template to_vector<T>();
    EXPECT_EQ(std::vector<T>(found.begin() + skew, found.end()), expected) << "trial " << trial;
  }
}

TYPED_TEST(LowRankKernels, AddMultiples) {
  using T = TypeParam;
  const auto context = make_rank_context(0);
  Draws draws;
  const auto x = draws.normal<T>(1003), y = draws.normal<T>(1003);
  const Tensor from = on_device(*context, x), to = on_device(*context, y);
  launch_add_multiple(stream_of(*context), T(0.25), from.template data<T>() + 1, 1001,
                      to.template data<T>() + 2);
  auto expected = y;
  add_multiple(T(0.25), x.data() + 1, 1001, expected.data() + 2);
  EXPECT_EQ(to.template to_vector<T>(), expected);
}

}  // namespace
}  // namespace lockstep::train

#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();

constexpr DType all_types[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                               DType::int32,   DType::int64,   DType::uint8};

// Small whole numbers and, between floating types, halves are exact in every type.
TEST(Memory, CopyConvertsBetweenAllTypes) {
  const auto context = make_test_context();
  Random random(1);
  for (const DType from : all_types) {
    for (const DType to : all_types) {
      for (int trial = 0; trial < trials(8); ++trial) {
        const Shape shape = random.shape();
        const Tensor x = random_tensor(*context, random, random.broadcastable(shape), from,
                                       random.layout(false), 0, 50);
        Values values = values_of(x);
        for (double& v : values) v = std::floor(v);
        assign(x, values);
        const Tensor out = random_tensor(*context, random, shape, to, random.layout(true), 0, 50);
        kernels.copy(x, out);
        const Values own = values_of(x), found = values_of(out);
        std::size_t i = 0;
        for_each_index(shape, [&](const Index& index) {
          ASSERT_EQ(found[i++], own[broadcast_position(index, x.shape())])
              << base::name_of(from) << " to " << base::name_of(to);
        });
      }
    }
  }
}

TEST(Memory, CopyRoundsToNearest) {
  const auto context = make_test_context();
  const Tensor x = Tensor::from(*context, {1.00390625, -2.7, 3.99}, {3});  // 1 + 2^-8
  const Tensor narrow = Tensor::empty(*context, {3}, DType::bfloat16);
  kernels.copy(x, narrow);
  EXPECT_EQ(values_of(narrow)[0], 1);  // a tie goes to even
  const Tensor whole = Tensor::empty(*context, {3}, DType::int32);
  kernels.copy(x, whole);
  EXPECT_EQ(values_of(whole), (Values{1, -2, 3}));
}

TEST(Memory, FillEveryTypeAndLayout) {
  const auto context = make_test_context(2);
  Random random(2);
  for (const DType dtype : all_types) {
    for (int trial = 0; trial < trials(20); ++trial) {
      const Tensor out =
          random_tensor(*context, random, random.shape(), dtype, random.layout(true), 0, 9);
      kernels.fill(42, out);
      for (const double v : values_of(out)) ASSERT_EQ(v, 42);
    }
  }
}

TEST(Memory, LargeTransposedCopies) {
  const auto context = make_test_context(2);
  Random random(3);
  for (const auto& [rows, columns] :
       {std::pair{300, 517}, {1, 70000}, {70000, 1}, {64, 64}, {129, 3}}) {
    const Tensor x = random_tensor(*context, random, {rows, columns}, DType::float32);
    const Tensor out = Tensor::empty(*context, {columns, rows});
    kernels.copy(x.transpose(0, 1), out);
    const auto from = x.to_vector<float>(), to = out.to_vector<float>();
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
      for (std::size_t j = 0; j < static_cast<std::size_t>(columns); ++j) {
        ASSERT_EQ(to[j * static_cast<std::size_t>(rows) + i],
                  from[i * static_cast<std::size_t>(columns) + j]);
      }
    }
  }
}

TEST(Memory, KernelsAreFoundByDevice) {
  const auto context = make_test_context();
  EXPECT_EQ(&kernels_for(*context), &kernels_under_test());
  EXPECT_FALSE(cpu_kernels_description().empty());
}

TEST(Memory, StoresBytesThatMayChangeAtOnce) {
  const auto context = make_test_context();
  std::vector<float> values{1, 2, 3, 4, 5};
  const Tensor whole = Tensor::empty(*context, {7});
  kernels.fill(9, whole);
  kernels.store(std::as_bytes(std::span(values)), whole.slice(0, 1, 6));
  values.assign(5, 0);
  EXPECT_EQ(values_of(whole), (Values{9, 1, 2, 3, 4, 5, 9}));
  EXPECT_THROW(kernels.store(std::as_bytes(std::span(values)), whole), UsageError);
  const std::vector<float> many(33);
  EXPECT_THROW(kernels.store(std::as_bytes(std::span(many)), Tensor::empty(*context, {33})),
               UsageError);
}

}  // namespace
}  // namespace lockstep::kernels::testing

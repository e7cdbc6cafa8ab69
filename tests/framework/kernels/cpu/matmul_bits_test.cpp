// What the CPU promises of products beyond their values.
#include "tests/framework/kernels/reference.h"

namespace lockstep::kernels::testing {
namespace {

const Kernels& kernels = kernels_under_test();

TEST(Matmul, BitsDoNotDependOnThreadsOrAlignment) {
  Random random(2);
  const std::int64_t m = 333, k = 211, n = 601;
  Values a_values(static_cast<std::size_t>(m * k)), b_values(static_cast<std::size_t>(k * n));
  for (double& v : a_values) v = random.uniform(-1, 1);
  for (double& v : b_values) v = random.uniform(-1, 1);
  Values previous;
  for (const int threads : {1, 2, 4}) {
    for (const std::int64_t shift : {0, 1, 3}) {
      const auto context = make_test_context(threads);
      const auto at_offset = [&](std::int64_t rows, std::int64_t columns) {
        const Tensor whole = Tensor::empty(*context, {rows * columns + shift});
        return whole.slice(0, shift, shift + rows * columns).reshape({rows, columns});
      };
      const Tensor a = at_offset(m, k), b = at_offset(k, n), c = at_offset(m, n);
      assign(a, a_values);
      assign(b, b_values);
      kernels.matmul(a, b, c, false);
      if (previous.empty()) previous = values_of(c);
      ASSERT_EQ(values_of(c), previous) << threads << " threads, shifted by " << shift;
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels::testing

// What the kernel tests share: tensors of random shape and layout, and element access in plain
// double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "framework/kernels/kernels.h"

namespace lockstep::kernels::testing {

// A context of the kind of device that the program tests, and its kernels. `threads` counts on the
// CPU only.
std::unique_ptr<Context> make_test_context(int threads = 1);
const Kernels& kernels_under_test();
// How many of so many random cases to try: fewer where each takes long.
int trials(int wanted);

using Values = std::vector<double>;  // the elements of a tensor in row-major order of its shape
using Index = std::vector<std::int64_t>;

// Calls f(index) for every index of `shape` in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const Index&)>& f);
// Position of `index` in a row-major tensor of `shape` that is broadcast to the index's space.
std::size_t broadcast_position(const Index& index, const Shape& shape);

Values values_of(const Tensor& tensor);  // any strides, any dtype
void assign(const Tensor& tensor, const Values& values);

// GELU by tanh as it was published, not as kernels compute it.
double gelu_tanh(double x);
double gelu_tanh_derivative(double x);

// How the elements of a test tensor lie in memory.
enum class Layout { contiguous, permuted, sliced, expanded };
std::string to_string(Layout layout);

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine_);
  }
  // Rank 0 to 4; extents are often 1, sometimes larger than a vector, now and then 0.
  Shape shape(int min_rank = 0);
  // A shape that broadcasts to `shape`: leading axes dropped, extents replaced by 1.
  Shape broadcastable(const Shape& shape);
  Layout layout(bool writable);

 private:
  std::mt19937_64 engine_;
};

// Elements uniform in [low, high), rounded to `dtype`.
Tensor random_tensor(Context& context, Random& random, const Shape& shape, DType dtype,
                     Layout layout, double low = -2, double high = 2);
Tensor random_tensor(Context& context, Random& random, const Shape& shape,
                     DType dtype);  // contiguous

// |actual - expected| <= relative * max(|expected|, floor), element by element; NaN equals NaN.
void expect_close(const Tensor& actual, const Values& expected, double relative, double floor = 1);
void expect_same_bits(const Tensor& a, const Tensor& b);

inline constexpr DType float_types[] = {DType::float32, DType::float64};
// Rounding error of a few operations in `dtype`.
inline double tolerance(DType dtype, double units = 4) {
  return units * (dtype == DType::float32 ? 0x1p-23 : 0x1p-52);
}

}  // namespace lockstep::kernels::testing

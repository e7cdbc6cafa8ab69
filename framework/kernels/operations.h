// The operations that kernels are asked for, as plain values that host and device code share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::kernels {

// What Kernels::store() takes at most.
inline constexpr std::size_t most_stored_bytes = 128;

// Of a digest's blocks. Large enough to hash at full speed, small enough to share among threads.
inline constexpr std::size_t digest_block_bytes = std::size_t{64} << 10;
// A shorter block is hashed as if zeros followed: XXH3 has another form for each range of short
// lengths, and kernels of a GPU have the long one only.
inline constexpr std::size_t least_hashed_bytes = 256;

// gelu is exact, x * Phi(x), Phi the distribution function of the standard normal; gelu_tanh is its
// approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks, Gimpel 2016).
enum class Unary : std::uint8_t {
  negate,
  relu,
  gelu,
  gelu_tanh,
  tanh,
  sigmoid,
  exp,
  log,
  sqrt,
  square
};
enum class Binary : std::uint8_t { add, subtract, multiply, divide };
enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh, tanh, sigmoid };

// What a function's gradient is computed from, beside the gradient of its output.
enum class GradientFrom : std::uint8_t { neither, input, output };

constexpr GradientFrom gradient_from(Unary op) {
  switch (op) {
    case Unary::negate:
      return GradientFrom::neither;
    case Unary::gelu:
    case Unary::gelu_tanh:
    case Unary::log:
    case Unary::square:
      return GradientFrom::input;
    case Unary::relu:
    case Unary::tanh:
    case Unary::sigmoid:
    case Unary::exp:
    case Unary::sqrt:
      return GradientFrom::output;
  }
  return GradientFrom::neither;
}

constexpr GradientFrom gradient_from(Activation activation) {
  switch (activation) {
    case Activation::none:
      return GradientFrom::neither;
    case Activation::gelu:
    case Activation::gelu_tanh:
      return GradientFrom::input;
    case Activation::relu:
    case Activation::tanh:
    case Activation::sigmoid:
      return GradientFrom::output;
  }
  return GradientFrom::neither;
}

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
};

// In what matrices of float32 are multiplied. The two others are for a GPU's matrix units, and
// round both factors first: to 10 bits behind the point (TensorFloat-32) or to 7 (bfloat16). Sums
// are float32 in all.
enum class ProductPrecision : std::uint8_t { float32, tf32, bfloat16 };

struct SgdOptions {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
};

struct AdamOptions {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // AdamW: decay multiplies the parameter instead of joining the gradient
  std::int64_t step = 1;   // 1 on the first update; for the bias correction
};

// Of what batch normalisation normalises, feature by feature.
struct BatchNormShape {
  std::int64_t rows = 0, features = 0;
};

}  // namespace lockstep::kernels

namespace lockstep {
using kernels::Activation;
}

// Initial values of parameters.
//
// A value is drawn at the element's index from a stream keyed by the seed and the parameter's name,
// so weights are the same on every rank, for every world size and thread count. Values are computed
// in double and rounded to the parameter's dtype. Gains are those of PyTorch's calculate_gain.
#pragma once

#include <cstdint>

#include "framework/kernels/kernels.h"
#include "framework/nn/module.h"

namespace lockstep::nn {

// How many inputs an output element has, and how many outputs an input element reaches.
struct Fans {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
// Of a weight [out, in, window...]; throws UsageError for fewer than two axes or an empty one.
Fans fans_of(const Shape& shape);

enum class FanMode : std::uint8_t { in, out };

// What keeps the variance of activations through a layer followed by `activation`: 1 for none and
// sigmoid, sqrt(2) for relu and (near enough) either gelu, 5/3 for tanh.
double gain_of(Activation activation);
// sqrt(2 / (1 + slope^2)) for a leaky relu with this negative slope.
double leaky_relu_gain(double slope);

Initializer constant(double value);
Initializer zeros();
Initializer uniform(double low, double high);  // [low, high)
Initializer normal(double mean, double standard_deviation);

// He, Zhang, Ren, Sun: "Delving deep into rectifiers", ICCV 2015. Standard deviation gain /
// sqrt(fan).
Initializer kaiming_uniform(double gain, FanMode mode = FanMode::in);
Initializer kaiming_normal(double gain, FanMode mode = FanMode::in);

// Glorot, Bengio: "Understanding the difficulty of training deep feedforward neural networks",
// AISTATS 2010. Standard deviation gain * sqrt(2 / (fan in + fan out)).
Initializer xavier_uniform(double gain = 1.0);
Initializer xavier_normal(double gain = 1.0);

}  // namespace lockstep::nn

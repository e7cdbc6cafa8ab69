#include "framework/nn/init.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/base/error.h"

namespace lockstep::nn {
namespace {

// Draws on the host and copies, so that one code serves every device.
void assign(const Tensor& value, const std::vector<double>& draws) {
  const Tensor drawn = Tensor::from(value.context(), std::span<const double>(draws), value.shape());
  kernels::kernels_for(value.context()).copy(drawn, value);
}

void draw_uniform(const Tensor& value, const base::RandomStream& stream, double low, double high) {
  std::vector<double> draws(static_cast<std::size_t>(value.count()));
  for (std::size_t begin = 0; begin < draws.size(); begin += 4) {
    // The words of bits(begin) .. bits(begin + 3), made at once.
    const auto words = stream.block(0, begin / 4);
    const std::size_t count = std::min<std::size_t>(4, draws.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      draws[begin + i] = low + (high - low) * double{base::uniform_from_bits(words[i])};
    }
  }
  assign(value, draws);
}

void draw_normal(const Tensor& value, const base::RandomStream& stream, double mean,
                 double standard_deviation) {
  std::vector<double> draws(static_cast<std::size_t>(value.count()));
  for (std::size_t i = 0; i < draws.size(); ++i) {
    draws[i] = mean + standard_deviation * stream.normal(i);
  }
  assign(value, draws);
}

double kaiming_deviation(const Shape& shape, double gain, FanMode mode) {
  const Fans fans = fans_of(shape);
  return gain / std::sqrt(static_cast<double>(mode == FanMode::in ? fans.in : fans.out));
}

double xavier_deviation(const Shape& shape, double gain) {
  const Fans fans = fans_of(shape);
  return gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out));
}

// Of a uniform distribution around zero with this standard deviation.
double bound_for(double standard_deviation) {
  return std::sqrt(3.0) * standard_deviation;
}

}  // namespace

Fans fans_of(const Shape& shape) {
  if (shape.rank() < 2 || shape.count() == 0) {
    throw UsageError("the fans of a weight of shape " + base::to_string(shape) +
                     " are not defined, expected [out, in, ...] without empty axes");
  }
  const std::int64_t window = shape.count() / (shape[0] * shape[1]);
  return {.in = shape[1] * window, .out = shape[0] * window};
}

double gain_of(Activation activation) {
  switch (activation) {
    case Activation::none:
    case Activation::sigmoid:
      return 1.0;
    case Activation::relu:
    case Activation::gelu:
    case Activation::gelu_tanh:
      return std::sqrt(2.0);
    case Activation::tanh:
      return 5.0 / 3.0;
  }
  __builtin_unreachable();
}

double leaky_relu_gain(double slope) {
  return std::sqrt(2.0 / (1.0 + slope * slope));
}

Initializer constant(double value) {
  return [value](const Tensor& tensor, const base::RandomStream&) {
    kernels::kernels_for(tensor.context()).fill(value, tensor);
  };
}

Initializer zeros() {
  return constant(0.0);
}

Initializer uniform(double low, double high) {
  return [low, high](const Tensor& value, const base::RandomStream& stream) {
    draw_uniform(value, stream, low, high);
  };
}

Initializer normal(double mean, double standard_deviation) {
  return [mean, standard_deviation](const Tensor& value, const base::RandomStream& stream) {
    draw_normal(value, stream, mean, standard_deviation);
  };
}

Initializer kaiming_uniform(double gain, FanMode mode) {
  return [gain, mode](const Tensor& value, const base::RandomStream& stream) {
    const double bound = bound_for(kaiming_deviation(value.shape(), gain, mode));
    draw_uniform(value, stream, -bound, bound);
  };
}

Initializer kaiming_normal(double gain, FanMode mode) {
  return [gain, mode](const Tensor& value, const base::RandomStream& stream) {
    draw_normal(value, stream, 0.0, kaiming_deviation(value.shape(), gain, mode));
  };
}

Initializer xavier_uniform(double gain) {
  return [gain](const Tensor& value, const base::RandomStream& stream) {
    const double bound = bound_for(xavier_deviation(value.shape(), gain));
    draw_uniform(value, stream, -bound, bound);
  };
}

Initializer xavier_normal(double gain) {
  return [gain](const Tensor& value, const base::RandomStream& stream) {
    draw_normal(value, stream, 0.0, xavier_deviation(value.shape(), gain));
  };
}

}  // namespace lockstep::nn

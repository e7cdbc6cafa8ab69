// Layers on a GPU, whose products take gradients of bias and activation along, against the CPU's.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "framework/autograd/engine.h"
#include "framework/device/cpu/cpu_context.h"
#include "framework/device/cuda/cuda_context.h"
#include "framework/ops/ops.h"

namespace lockstep::ops {
namespace {

using Floats = std::vector<float>;

struct Layer {
  std::int64_t width = 0;
  Activation activation = Activation::none;
  bool bias = true;
  bool frozen = false;  // its weight
};

struct Net {
  std::int64_t rows = 0, in = 0;
  std::vector<Layer> layers = {};
  bool input_wants_gradient = false;
  int branches = 1;     // uses of the first layer's result
  int repetitions = 1;  // backward passes that add up
};

enum class Weights { float32, rounded, working_copy };

// The gradients of all leaves; the last is the input's.
std::vector<Floats> gradients_of(Context& context, const Net& net, Weights weights,
                                 const autograd::GradientReady& on_ready = {}) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto leaf = [&](const Shape& shape, bool wants, float scale, const std::string& name) {
    Floats values(static_cast<std::size_t>(shape.count()));
    for (float& value : values) value = scale * uniform(random);
    Variable variable(Tensor::from<float>(context, values, shape), wants, name);
    if (weights == Weights::working_copy && name == "weight") {
      const Tensor copy = Tensor::empty(context, shape, DType::bfloat16);
      kernels::kernels_for(context).copy(variable.value(), copy);
      variable.set_working_copy(copy);
    }
    return variable;
  };
  const Variable x = leaf({net.rows, net.in}, net.input_wants_gradient, 1, "x");
  struct Parameters {
    Variable weight, bias;
  };
  std::vector<Parameters> parameters;
  std::int64_t in = net.in;
  for (const Layer& layer : net.layers) {
    const float scale = std::sqrt(3.0f / static_cast<float>(in));
    parameters.push_back({leaf({layer.width, in}, !layer.frozen, scale, "weight"),
                          layer.bias ? leaf({layer.width}, true, 0.5, "bias") : Variable()});
    in = layer.width;
  }
  for (int repetition = 0; repetition < net.repetitions; ++repetition) {
    const auto apply = [&](const Variable& from, std::size_t i) {
      return linear(from, parameters[i].weight, parameters[i].bias, net.layers[i].activation);
    };
    const Variable first = apply(x, 0);
    Variable total;
    for (int branch = 0; branch < net.branches; ++branch) {
      Variable y = first;
      for (std::size_t i = 1; i < net.layers.size(); ++i) y = apply(y, i);
      total = total.defined() ? add(total, y) : y;
    }
    autograd::backward(sum(multiply(total, total)),
                       {.on_gradient_ready = on_ready, .accumulate = repetition > 0});
  }
  std::vector<Floats> found;
  for (const auto& [weight, bias] : parameters)
    for (const Variable& variable : {weight, bias})
      if (variable.defined() && variable.requires_grad())
        found.push_back(variable.grad().to_vector<float>());
  if (net.input_wants_gradient) found.push_back(x.grad().to_vector<float>());
  return found;
}

// Each within `tolerance` of the largest of its tensor.
void expect_close(const std::vector<Floats>& found, const std::vector<Floats>& expected,
                  float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t t = 0; t < found.size(); ++t) {
    ASSERT_EQ(found[t].size(), expected[t].size());
    float largest = 0;
    for (const float value : expected[t]) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < found[t].size(); ++i)
      ASSERT_NEAR(found[t][i], expected[t][i], tolerance * largest) << "tensor " << t << ", " << i;
  }
}

class LinearOnGpu : public ::testing::Test {
 protected:
  const std::unique_ptr<Context> cpu_ = device::make_cpu_context();
  const std::unique_ptr<Context> gpu_ = device::make_cuda_context(0, 0);
};

Net random_net(std::mt19937& random) {
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  constexpr Activation activations[] = {
      Activation::none, Activation::relu,    Activation::gelu,      Activation::gelu_tanh,
      Activation::tanh, Activation::sigmoid, Activation::gelu_tanh, Activation::relu};
  Net net{.rows = integer(0, 9), .in = integer(1, 20)};
  for (int i = integer(1, 3); i > 0; --i)
    net.layers.push_back({.width = integer(0, 1) > 0 ? 8 * integer(1, 20) : integer(1, 150),
                          .activation = activations[integer(0, 7)],
                          .bias = integer(0, 3) > 0,
                          .frozen = integer(0, 5) == 0});
  net.input_wants_gradient = integer(0, 1) > 0;
  net.branches = integer(0, 3) > 0 ? 1 : 2;
  net.repetitions = integer(0, 2) > 0 ? 1 : 2;
  // Something must want a gradient.
  net.layers.front().frozen = net.layers.front().frozen && net.input_wants_gradient;
  return net;
}

TEST_F(LinearOnGpu, HasTheGradientsOfTheCpu) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    const Net net = random_net(random);
    expect_close(gradients_of(*gpu_, net, Weights::float32),
                 gradients_of(*cpu_, net, Weights::float32), 2e-5f);
    if (HasFatalFailure()) FAIL() << "in trial " << trial;
  }
}

// Products read a copy that an optimizer keeps, or round the weights themselves: the same bits.
TEST_F(LinearOnGpu, RoundsTheFactorsOfProducts) {
  kernels::kernels_for(*gpu_).set_product_precision(*gpu_, kernels::ProductPrecision::bfloat16);
  std::mt19937 random(2);
  for (int trial = 0; trial < 30; ++trial) {
    const Net net = random_net(random);
    const auto rounded = gradients_of(*gpu_, net, Weights::rounded);
    EXPECT_EQ(gradients_of(*gpu_, net, Weights::working_copy), rounded);
    if (trial % 3 == 0) continue;
    Net smooth = net;  // which relu lets through may change by rounding
    for (Layer& layer : smooth.layers)
      if (layer.activation == Activation::relu) layer.activation = Activation::tanh;
    expect_close(gradients_of(*gpu_, smooth, Weights::rounded),
                 gradients_of(*cpu_, smooth, Weights::float32), 0.1f);
    if (HasFatalFailure()) FAIL() << "in trial " << trial;
  }
}

// A bias's gradient comes with the blocks of its weight's, each part before the rows it belongs to.
TEST_F(LinearOnGpu, AnnouncesBiasAndWeightBlockByBlock) {
  std::vector<std::pair<std::string, std::int64_t>> announced;
  const Net net{.rows = 2, .in = 2048, .layers = {Layer{.width = 700}}};
  gradients_of(*gpu_, net, Weights::float32,
               [&](const Variable& leaf, std::int64_t begin, std::int64_t end) {
                 EXPECT_LT(begin, end);
                 announced.emplace_back(leaf.name(), end);
               });
  ASSERT_GT(announced.size(), 4u);
  for (std::size_t i = 0; i + 1 < announced.size(); i += 2) {
    EXPECT_EQ(announced[i].first, "bias");
    EXPECT_EQ(announced[i + 1].first, "weight");
    EXPECT_EQ(announced[i + 1].second, announced[i].second * 2048);
  }
  EXPECT_EQ(announced.back().second, 700 * 2048);
}

// With the mask alone, of which nothing but such a product makes sense.
TEST_F(LinearOnGpu, KeepsAMaskThatAProductReads) {
  const auto& kernels = kernels::kernels_for(*gpu_);
  const Tensor x = Tensor::from<float>(*gpu_, {1.0f, -1.0f}, {2, 1});
  const Tensor w = Tensor::from<float>(*gpu_, {1.0f, -2.0f, 3.0f}, {3, 1});
  const Tensor y = Tensor::empty(*gpu_, {2, 3});
  const auto record = kernels.linear(x, w, {}, Activation::relu, true, y);
  EXPECT_EQ(y.to_vector<float>(), (Floats{1, 0, 3, 0, 2, 0}));
  ASSERT_TRUE(record.mask.defined());
  const Tensor above = Tensor::from<float>(*gpu_, {1.0f, 10.0f, 100.0f}, {1, 3});
  const Tensor grad = Tensor::from<float>(*gpu_, {1.0f, 2.0f}, {2, 1});
  const Tensor grad_x = Tensor::empty(*gpu_, {2, 3});
  kernels.linear_input_gradient(grad, above, {.activation = Activation::relu, .mask = record.mask},
                                grad_x, false);
  EXPECT_EQ(grad_x.to_vector<float>(), (Floats{1, 0, 100, 0, 20, 0}));
}

}  // namespace
}  // namespace lockstep::ops

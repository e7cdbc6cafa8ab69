#include "tests/framework/ops/gradient_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/autograd/engine.h"
#include "framework/autograd/no_grad.h"
#include "framework/kernels/kernels.h"
#include "framework/ops/arithmetic.h"
#include "framework/ops/reduce.h"
#include "framework/ops/view.h"

namespace lockstep::ops {
namespace {

constexpr double step = 1e-5;
constexpr double tolerance = 1e-7;  // relative above 1; the differences themselves are good to 1e-9

using Values = std::vector<double>;

Tensor packed(const Tensor& tensor) {
  const Tensor copy = Tensor::empty(tensor.context(), tensor.shape(), tensor.dtype());
  kernels::kernels_for(tensor.context()).copy(tensor, copy);
  return copy;
}

Values values_of(const Tensor& tensor) {
  const Tensor copy = packed(tensor);
  const auto elements = copy.elements<double>();
  return {elements.begin(), elements.end()};
}

enum class Layout { contiguous, transposed, sliced, expanded };

// A view of that layout with the values of `tensor`; expanded repeats those at index 0 of axis 0.
Tensor lay_out(const Tensor& tensor, Layout layout) {
  const int rank = tensor.rank();
  if (rank == 0 || layout == Layout::contiguous) return packed(tensor);
  if (layout == Layout::transposed) return packed(tensor.transpose(0, -1)).transpose(0, -1);
  if (layout == Layout::expanded) return packed(tensor.slice(0, 0, 1)).expand(tensor.shape());
  Shape larger = tensor.shape();
  larger[rank - 1] += 3;
  const Tensor around = Tensor::empty(tensor.context(), larger, tensor.dtype());
  const kernels::Kernels& kernels = kernels::kernels_for(tensor.context());
  kernels.fill(std::numeric_limits<double>::quiet_NaN(), around);
  const Tensor inside = around.slice(-1, 1, 1 + tensor.shape().back());
  kernels.copy(tensor, inside);
  return inside;
}

// The objective is sum(f(inputs) * weight): some weights that repeat nowhere, or ones.
Values some_weights(std::size_t count) {
  Values weights(count);
  for (std::size_t i = 0; i < count; ++i) weights[i] = std::cos(1.3 * static_cast<double>(i) + 0.5);
  return weights;
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Values evaluate(const Function& f, const std::vector<Tensor>& inputs) {
  const autograd::NoGrad no_grad(inputs[0].context());
  std::vector<Variable> constants;
  for (const Tensor& input : inputs) constants.emplace_back(input);
  return values_of(f(constants).value());
}

struct Differences {
  Values weighted;  // d sum(f * some_weights) / d input
  Values plain;     // d sum(f) / d input
};

Differences central_differences(const Function& f, const std::vector<Tensor>& inputs,
                                std::size_t which) {
  Differences differences;
  for (double& element : inputs[which].elements<double>()) {
    const double before = element;
    element = before + step;
    const Values above = evaluate(f, inputs);
    element = before - step;
    const Values below = evaluate(f, inputs);
    element = before;
    const Values weights = some_weights(above.size()), ones(above.size(), 1.0);
    differences.weighted.push_back((dot(above, weights) - dot(below, weights)) / (2 * step));
    differences.plain.push_back((dot(above, ones) - dot(below, ones)) / (2 * step));
  }
  return differences;
}

enum class Incoming { contiguous, transposed, expanded };

// sum(y * weight), written so that y's gradient arrives in the layout asked for.
Variable objective(const Variable& y, Incoming incoming) {
  if (incoming == Incoming::expanded) return sum(y);
  const Values weights = some_weights(static_cast<std::size_t>(y.value().count()));
  const Tensor weight = Tensor::from(y.context(), std::span<const double>(weights), y.shape());
  if (incoming == Incoming::contiguous || y.value().rank() < 2) return sum(y * Variable(weight));
  return sum(transpose(y, 0, -1) * Variable(weight.transpose(0, -1)));
}

std::vector<Variable> leaves_of(const std::vector<Tensor>& values) {
  std::vector<Variable> leaves;
  for (const Tensor& value : values) leaves.emplace_back(value, true);
  return leaves;
}

void expect_near(const Variable& leaf, const Values& expected, double factor,
                 const std::string& what) {
  ASSERT_TRUE(leaf.grad().defined()) << what;
  const Values found = values_of(leaf.grad());
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double want = factor * expected[i];
    EXPECT_NEAR(found[i], want, tolerance * std::max(1.0, std::abs(want)))
        << what << ", element " << i << " of shape " << base::to_string(leaf.shape());
  }
}

void check_layout(const Function& f, const std::vector<Tensor>& values, Layout layout) {
  std::vector<Tensor> views, copies;
  for (const Tensor& value : values) {
    views.push_back(lay_out(value, layout));
    copies.push_back(packed(views.back()));
  }
  std::vector<Differences> expected;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    expected.push_back(central_differences(f, copies, i));
  }
  for (const Incoming incoming : {Incoming::contiguous, Incoming::transposed, Incoming::expanded}) {
    const std::vector<Variable> leaves = leaves_of(views);
    autograd::backward(objective(f(leaves), incoming));
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const bool plain = incoming == Incoming::expanded;
      expect_near(leaves[i], plain ? expected[i].plain : expected[i].weighted, 1,
                  fmt::format("input {}, layout {}, incoming gradient {}", i,
                              static_cast<int>(layout), static_cast<int>(incoming)));
    }
  }

  const std::vector<Variable> leaves = leaves_of(views);
  std::vector<Variable> results;
  for (const Variable& leaf : leaves) results.push_back(scale(leaf, 1.0));
  const Variable first = objective(f(results), Incoming::contiguous);
  const Variable second = objective(f(results), Incoming::transposed);
  autograd::backward(first + second);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    expect_near(leaves[i], expected[i].weighted, 2,
                fmt::format("input {}, layout {}, used twice", i, static_cast<int>(layout)));
  }
}

}  // namespace

void expect_gradients(const Function& f, const std::vector<Tensor>& inputs) {
  for (const Layout layout :
       {Layout::contiguous, Layout::transposed, Layout::sliced, Layout::expanded}) {
    check_layout(f, inputs, layout);
  }
}

std::int64_t Random::integer(std::int64_t low, std::int64_t high) {
  // Not std::uniform_int_distribution, whose values differ between libraries.
  return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
}

Shape Random::shape(int min_rank, int max_rank) {
  std::vector<std::int64_t> extents(static_cast<std::size_t>(integer(min_rank, max_rank)));
  for (std::int64_t& extent : extents) extent = integer(1, 3) == 1 ? 1 : integer(2, 4);
  return Shape(std::span<const std::int64_t>(extents));
}

Shape Random::broadcastable(const Shape& to) {
  std::vector<std::int64_t> extents;
  for (int axis = static_cast<int>(integer(0, to.rank())); axis < to.rank(); ++axis) {
    extents.push_back(integer(1, 3) == 1 ? 1 : to[axis]);
  }
  return Shape(std::span<const std::int64_t>(extents));
}

Tensor Random::uniform(const Shape& shape, double low, double high) {
  Values values(static_cast<std::size_t>(shape.count()));
  for (double& value : values)
    value = low + (high - low) * 0x1p-32 * static_cast<double>(engine_());
  return Tensor::from(context_, std::span<const double>(values), shape);
}

}  // namespace lockstep::ops

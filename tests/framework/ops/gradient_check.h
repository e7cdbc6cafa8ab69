// Gradients against central differences, in float64.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "framework/autograd/variable.h"

namespace lockstep::ops {

using Function = std::function<Variable(const std::vector<Variable>&)>;

// Checks the gradients of `f` at `inputs` (float64). It does so for inputs that are contiguous,
// transposed, slices of something larger and, along their first axis, expanded; for an incoming
// gradient that is contiguous, transposed and expanded; and for inputs that are results themselves
// and used twice, so that gradients are added to what is there. Values and differences come from
// contiguous copies, so a wrong reading of strides shows too. Failures are reported through
// GoogleTest.
void expect_gradients(const Function& f, const std::vector<Tensor>& inputs);

// Random shapes and values for it, the same in each run.
class Random {
 public:
  explicit Random(Context& context, unsigned seed = 1) : context_(context), engine_(seed) {}

  std::int64_t integer(std::int64_t low, std::int64_t high);  // inclusive
  // Extents 1 to 4, a third of them 1.
  Shape shape(int min_rank, int max_rank);
  // A shape that broadcasts to `to` together with another: some axes 1, some leading ones missing.
  Shape broadcastable(const Shape& to);
  Tensor uniform(const Shape& shape, double low = -2, double high = 2);  // float64

 private:
  Context& context_;
  std::mt19937 engine_;
};

}  // namespace lockstep::ops

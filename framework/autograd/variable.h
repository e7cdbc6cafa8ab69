// Variable: a tensor in the graph of a computation. A cheap handle; copies are the same variable.
//
// Used by the thread of its Context. Misuse throws UsageError: any access to an undefined variable,
// leaf-only members called on the result of an op, a value or gradient of another shape or dtype.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace lockstep::autograd {

class Node;

class Variable {
 public:
  Variable() = default;
  // A leaf. With `requires_grad` false it is a constant to the backward pass.
  explicit Variable(Tensor value, bool requires_grad = false, std::string name = "");

  bool defined() const { return state_ != nullptr; }
  const Tensor& value() const;
  const Shape& shape() const;
  DType dtype() const;
  Context& context() const;
  bool requires_grad() const;
  bool is_leaf() const;
  const std::string& name() const;

  // Of a leaf: its gradient, undefined before the first backward that reaches it. A backward writes
  // it (or adds to it, see BackwardOptions) in place when it is already defined, which is how
  // gradients land in a ParameterArena. set_grad takes contiguous memory of the value's shape and
  // dtype, or an undefined tensor to drop the gradient.
  const Tensor& grad() const;
  void set_grad(Tensor grad);
  // Moves a leaf's value to other memory of the same shape and dtype; the contents are the caller's
  // affair.
  void set_value(Tensor value);
  // Of a leaf: its value in bfloat16, kept by whoever updates it, for products that read it so;
  // undefined where there is none. set_working_copy takes contiguous memory of the value's shape.
  const Tensor& working_copy() const;
  void set_working_copy(Tensor copy);
  // Of a leaf whose contents are still on their way: `arrive` runs once, before value() is read
  // next. It returns when work enqueued on the compute stream afterwards may read them.
  void set_arrival(std::function<void()> arrive);
  void set_requires_grad(bool requires_grad);  // freezing; leaves only

  // The same values, cut off from the graph.
  Variable detach() const;

  bool same_as(const Variable& other) const { return state_ == other.state_; }

  // For ops: the result of `node`.
  static Variable result_of(std::shared_ptr<Node> node, Tensor value);
  const std::shared_ptr<Node>& producer() const;

 private:
  friend class Engine;
  struct State;
  State& state() const;
  State& leaf_state(const char* what) const;

  std::shared_ptr<State> state_;
};

}  // namespace lockstep::autograd

namespace lockstep {
using autograd::Variable;
}

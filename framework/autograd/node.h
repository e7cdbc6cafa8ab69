// Node: one operation on the tape, and how its gradient reaches its inputs.
//
// An op builds a Node only when recording is on and an input requires a gradient (see record()). The
// node keeps its inputs and whatever tensors it saved; both are dropped as soon as its backward ran.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "framework/autograd/variable.h"

namespace lockstep::autograd {

// Where the gradient of one input goes. For a parameter this is its place in the gradient buffer, so an
// op that writes here with beta = accumulate needs no copy.
struct GradientSlot {
  Tensor tensor;
  bool accumulate = false;  // false: write, the memory may be uninitialised
};

// Given to Node::backward; valid during that call only.
class InputGradients {
 public:
  virtual ~InputGradients() = default;
  // Whether input `i` wants a gradient. Compute none that is not wanted.
  virtual bool wanted(std::size_t i) const = 0;
  // The slot to write input i's gradient to. Call at most once for each input.
  virtual GradientSlot slot(std::size_t i) = 0;
  // Instead of slot(): a finished tensor of the input's shape that no one will write to afterwards (a
  // view of the incoming gradient will do). Adopted without a copy where possible.
  virtual void give(std::size_t i, const Tensor& gradient) = 0;
};

class Node {
 public:
  virtual ~Node() = default;
  Node(std::string_view op, std::vector<Variable> inputs) : op_(op), inputs_(std::move(inputs)) {}

  // `grad_output` has the output's shape; contiguous unless it came from give().
  virtual void backward(const Tensor& grad_output, InputGradients& gradients) = 0;
  // Drops what the op saved; called by the engine after backward.
  virtual void release() = 0;

  std::string_view op() const { return op_; }
  const std::vector<Variable>& inputs() const { return inputs_; }

 private:
  friend class Engine;
  std::string_view op_;  // a literal
  std::vector<Variable> inputs_;
  bool consumed_ = false;
};

// Whether an op on these inputs has to put a node on the tape.
bool must_record(const std::vector<Variable>& inputs);

}  // namespace lockstep::autograd

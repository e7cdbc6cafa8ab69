// Node: one operation on the tape, and how its gradient reaches its inputs.
//
// An op builds a Node only when recording is on and an input requires a gradient (see record()).
// The tape holds no values but those an op saved: of its inputs a node keeps the leaf, whose
// gradient it will write, or the node that produced it. All that is dropped as soon as the node's
// backward ran.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/autograd/variable.h"

namespace lockstep::autograd {

// Where the gradient of one input goes. For a parameter this is its place in the gradient buffer,
// so an op that writes here with beta = accumulate needs no copy. Contiguous.
struct GradientSlot {
  Tensor tensor;
  bool accumulate = false;  // false: write, the memory may be uninitialised
};

class Node;

// Given to Node::backward; valid during that call only. Each wanted input gets exactly one slot()
// or give(). Finish writing to a slot before asking for the next: two inputs may be the same
// variable.
class InputGradients {
 public:
  virtual ~InputGradients() = default;
  // Whether input `i` wants a gradient. Compute none that is not wanted.
  virtual bool wanted(std::size_t i) const = 0;
  // The node that gave input i, where the running node alone contributes to the gradient of its
  // result: the two may then agree on another form of that gradient. Null for a leaf.
  virtual Node* sole_producer(std::size_t i) const = 0;
  // The slot to write input i's gradient to.
  virtual GradientSlot slot(std::size_t i) = 0;
  // Instead of slot(): a finished tensor of the input's shape that the op will not write to
  // afterwards (a view of the incoming gradient will do). Adopted without a copy where possible.
  virtual void give(std::size_t i, const Tensor& gradient) = 0;
  // Optional, after slot(i): the op has written elements [0, end) of that slot for good, so that
  // they need not wait for the rest of its backward. `end` grows from call to call.
  virtual void finished(std::size_t i, std::int64_t end) = 0;
};

class Node {
 public:
  // An input that takes part in the differentiation: a leaf, or the result of `producer`. Both are
  // empty for an input that needs no gradient.
  struct Edge {
    Variable leaf;
    std::shared_ptr<Node> producer;
  };

  Node(std::string_view op, std::span<const Variable> inputs);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // `grad_output` has the output's shape; contiguous unless it came from give(). Its memory may be
  // overwritten when nothing else holds it (buffer().use_count() == 1).
  virtual void backward(const Tensor& grad_output, InputGradients& gradients) = 0;
  // Drops what the op saved; called by the engine after backward.
  virtual void release() = 0;

  std::string_view op() const { return op_; }
  // The module that the op was run in, while a timeline was recorded; else empty.
  std::string_view part() const { return part_; }
  std::span<const Edge> inputs() const { return inputs_; }

 private:
  friend class Engine;
  friend class Variable;
  void set_output(const Tensor& output);

  std::string_view op_;  // a literal
  std::string_view part_;
  std::vector<Edge> inputs_;
  Context* context_ = nullptr;  // of the output, as are shape and dtype
  Shape shape_;
  DType dtype_ = DType::float32;
  bool consumed_ = false;  // a backward ran through it
};

// Whether an op on these inputs has to put a node on the tape.
bool must_record(std::span<const Variable> inputs);

// The result of an op: produced by an N(inputs, saved...) on the tape, or a constant when nothing
// has to be recorded.
template <class N, class... Saved>
Variable record(Tensor value, std::span<const Variable> inputs, Saved&&... saved) {
  if (!must_record(inputs)) return Variable(std::move(value));
  return Variable::result_of(std::make_shared<N>(inputs, std::forward<Saved>(saved)...),
                             std::move(value));
}

}  // namespace lockstep::autograd
